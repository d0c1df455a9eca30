//! Writes of a process that dies, and the recovery after the crash.

use std::{pin::Pin, sync::Arc, time::Duration};

use odm::{
    Error, ErrorKind, Schema,
    backend::{
        Fault, Faults, Recorder,
        operation::{DeleteOperation, Operation},
    },
    bson::rawdoc,
    check,
};
use odm_tests::aftermath::recover_and_check;

use crate::Fixture;

/// The time after which an interrupted write with transactions must have ended: longer than the retries of a transaction.
const MAX_WRITE_TIME: Duration = Duration::from_secs(90);

pub(crate) type Done<'f, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// Runs a write.
type RunWrite<S> = fn(odm::Database<S>) -> Done<'static, odm::Result<()>>;

/// A write and its name.
pub(crate) type Write<S> = (&'static str, RunWrite<S>);

/// A crash test: the writes, the documents before each write, and the checks after recovery.
pub(crate) struct CrashTest<S: 'static> {
    pub(crate) writes: &'static [Write<S>],
    /// Fills a database without documents.
    pub(crate) begin: fn(&odm::Database<S>) -> Done<'_>,
    /// Returns whether the check may return a finding after recovery.
    pub(crate) may_find: fn(&check::FindingKind) -> bool,
    pub(crate) agrees: for<'d> fn(&'d odm::Database<S>, &'d str) -> Done<'d>,
}

impl<S: Schema> CrashTest<S> {
    /// Runs each write, and kills the process before or after an operation. With transactions, the operation returns a connection
    /// error instead. Tests one operation of each twelve; with `ODM_CRASH=N`, one of each N, and with `ODM_CRASH=all`, each
    /// operation. The first operation depends on the write and on the backend, so that a short run covers different operations.
    pub(crate) async fn run(self, fixture: &Fixture) {
        let has_transactions = fixture.backend().capabilities().transactions;
        let step = operations_per_crash();
        let mut crashes = 0;
        // With a distance of twelve, the four backends together test each third operation of a long write.
        let backend_offset = match fixture.url().split(':').next() {
            Some("memory") => 0,
            Some("odm") => 3,
            _ if has_transactions => 6,
            _ => 9,
        };
        for (position, (name, write)) in self.writes.iter().enumerate() {
            let operations = self.count_operations(fixture, *write).await;
            let first = 1 + (position + backend_offset) % step.min(operations);
            for nth in (first..).step_by(step) {
                let mut was_reached = false;
                for is_after in [false, true] {
                    let db = open_empty(fixture).await;
                    (self.begin)(&db).await;
                    let faults = Arc::new(Faults::new(fixture.backend()));
                    let lost = || Error::new(ErrorKind::Connection, "the server is gone");
                    let fault = match (has_transactions, is_after) {
                        (true, false) => Fault::FailBefore(lost()),
                        (true, true) => Fault::FailAfter(lost()),
                        (false, false) => Fault::HangBefore,
                        (false, true) => Fault::HangAfter,
                    };
                    // An abort has no answer, so a fault of the abort would not end the write.
                    let can_fail = |operation: &_| !matches!(operation, Operation::Abort);
                    faults.inject(nth, can_fail, fault);
                    let mut done = tokio::spawn(write(odm::Database::with_backend(faults.clone())));
                    while !done.is_finished() && faults.pending() > 0 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    if has_transactions {
                        // A conflict can start the transaction again after the fault. A write that outlives the crash would
                        // change the documents of the next crash.
                        let answer = tokio::time::timeout(MAX_WRITE_TIME, &mut done).await;
                        let _answer = answer.expect("the write ends").unwrap();
                    } else if !done.is_finished() {
                        // The interrupted operation may still be running.
                        tokio::time::sleep(Duration::from_millis(150)).await;
                    }
                    if faults.pending() == 0 {
                        was_reached = true;
                        crashes += 1;
                    }
                    done.abort();
                    let when = format!("{name}, operation {nth}");
                    let seen = recover_and_check::<S>(fixture.backend(), self.may_find).await;
                    seen.unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
                    (self.agrees)(&db, &when).await;
                }
                if !was_reached {
                    break;
                }
            }
        }
        assert!(crashes > 0, "no write was interrupted");
    }

    /// Returns the number of operations of a write without a crash, at least one.
    async fn count_operations(&self, fixture: &Fixture, write: RunWrite<S>) -> usize {
        let db = open_empty(fixture).await;
        (self.begin)(&db).await;
        let recorder = Recorder::new(fixture.backend());
        let recorded = odm::Database::with_backend(Arc::new(recorder.clone()));
        // Some writes are refused, such as a reference to a missing document.
        let _answer = write(recorded).await;
        recorder.operations().len().max(1)
    }
}

/// Returns the distance between the tested operations of a write: see [`CrashTest::run`].
///
/// # Panics
///
/// If `ODM_CRASH` is neither `all` nor a positive number.
fn operations_per_crash() -> usize {
    match std::env::var("ODM_CRASH").as_deref() {
        Ok("all") => 1,
        Ok(number) => match number.parse() {
            Ok(step) if step > 0 => step,
            _ => panic!("`ODM_CRASH` is `all` or a positive number, and not `{number}`"),
        },
        Err(_) => 12,
    }
}

/// Deletes all documents of the schema, and returns a database.
async fn open_empty<S: Schema>(fixture: &Fixture) -> odm::Database<S> {
    for model in S::MODELS {
        let chunks = model.overflows.iter().map(|field| field.chunks.collection);
        for collection in chunks.chain([model.collection]) {
            let all = DeleteOperation {
                collection: collection.into(),
                filter: rawdoc! {},
                multi: true,
                origin: Default::default(),
            };
            fixture.backend().delete(all).await.unwrap();
        }
    }
    odm::Database::with_backend(fixture.backend())
}
