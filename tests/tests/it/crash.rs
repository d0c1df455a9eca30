//! Writes whose process dies.

use std::{pin::Pin, sync::Arc, time::Duration};

use odm::{
    Error, ErrorKind, Schema,
    backend::{Fault, Faults, operation::Delete},
    bson::rawdoc,
    check,
};
use odm_tests::aftermath::look;

use crate::Fixture;

pub(crate) type Done<'f, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// A write with its name.
pub(crate) type Write<S> = (
    &'static str,
    fn(odm::Database<S>) -> Done<'static, odm::Result<()>>,
);

/// What is written, on what, and what must be so whatever has become of it.
pub(crate) struct Crashes<S: 'static> {
    pub(crate) writes: &'static [Write<S>],
    /// Fills a database without documents.
    pub(crate) begin: fn(&odm::Database<S>) -> Done<'_>,
    /// What the check may find all the same.
    pub(crate) may_find: fn(&check::Fault) -> bool,
    pub(crate) agrees: for<'d> fn(&'d odm::Database<S>, &'d str) -> Done<'d>,
}

impl<S: Schema> Crashes<S> {
    /// The process dies before or after each operation of a write; or, where there are transactions, the server is gone. Every third
    /// operation is tried, and each of them with `ODM_CRASH=all`.
    pub(crate) async fn run(self, fixture: &Fixture) {
        let has_transactions = fixture.backend().capabilities().transactions;
        let step = match std::env::var("ODM_CRASH").as_deref() {
            Ok("all") => 1,
            _ => 3,
        };
        for (position, (name, write)) in self.writes.iter().enumerate() {
            for nth in (1 + position % step..).step_by(step) {
                let mut was_reached = false;
                for is_after in [false, true] {
                    let db = empty(fixture).await;
                    (self.begin)(&db).await;
                    let faults = Arc::new(Faults::new(fixture.backend()));
                    let lost = || Error::new(ErrorKind::Connection, "the server is gone");
                    let fault = match (has_transactions, is_after) {
                        (true, false) => Fault::Before(lost()),
                        (true, true) => Fault::After(lost()),
                        (false, false) => Fault::HangBefore,
                        (false, true) => Fault::HangAfter,
                    };
                    faults.inject(nth, |_| true, fault);
                    let done = tokio::spawn(write(odm::Database::with_backend(faults.clone())));
                    while !done.is_finished() && faults.pending() > 0 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    if !done.is_finished() {
                        // The operation itself may still be under way.
                        tokio::time::sleep(Duration::from_millis(150)).await;
                    }
                    was_reached |= faults.pending() == 0;
                    done.abort();
                    let when = format!("{name}, operation {nth}");
                    let seen = look::<S>(fixture.backend(), self.may_find).await;
                    seen.unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
                    (self.agrees)(&db, &when).await;
                }
                if !was_reached {
                    break;
                }
            }
        }
    }
}

/// The database without documents.
async fn empty<S: Schema>(fixture: &Fixture) -> odm::Database<S> {
    for model in S::MODELS {
        let extras = model.overflows.iter().map(|field| field.extras.collection);
        for collection in extras.chain([model.collection]) {
            let all = Delete {
                collection: collection.into(),
                filter: rawdoc! {},
                multi: true,
            };
            fixture.backend().delete(all).await.unwrap();
        }
    }
    odm::Database::with_backend(fixture.backend())
}
