//! Transactions over a session of the driver.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ::mongodb::{
    ClientSession, Database,
    bson::{Document, doc},
    error::UNKNOWN_TRANSACTION_COMMIT_RESULT,
    options::{ReadConcern, ReadPreference, SelectionCriteria},
};
use bson::{RawBson, RawDocumentBuf, rawdoc};
use tokio::sync::{Mutex, MutexGuard};

use super::{
    aggregate, bulk_write,
    cursor::{Batches, Opened},
    delete,
    distinct::{self, Values},
    error, find, find_and_modify, find_each, insert,
    read::{Kill, Killer, Running},
    task, update,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture, Cursor, Executor, Transaction, drain,
        operation::{
            Aggregate, BulkWrite, BulkWritten, Count, Delete, Deleted, Distinct, Explain, Find,
            FindAndModify, FindEach, FindSeveral, Insert, Update, Updated, Written,
        },
    },
};

/// How long a commit whose outcome is unknown is tried again; it outlasts the election of a new primary.
const COMMIT_PATIENCE: Duration = Duration::from_secs(20);

/// The pause before a commit is tried again.
const COMMIT_PAUSE: Duration = Duration::from_millis(50);

/// Begins a transaction.
pub(super) async fn begin(database: Database, killer: Arc<Killer>) -> Result<Arc<dyn Transaction>> {
    let session = database.client().start_session().await;
    let mut session = session.map_err(error::from_driver)?;
    // Its write concern is the client's: a majority has it in its journal.
    session
        .start_transaction()
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(ReadConcern::snapshot())
        .await
        .map_err(error::from_driver)?;
    let kill = Kill {
        killer,
        session: Arc::new(session.id().clone().into()),
    };
    let slot = Arc::new(Slot {
        client: database.client().clone(),
        state: Mutex::new(State {
            session,
            over: false,
        }),
        begun: OnceLock::new(),
        is_committing: AtomicBool::new(false),
    });
    Ok(Arc::new(MongoTransaction {
        database,
        slot,
        kill,
    }))
}

/// The error of every call after the end.
pub(super) fn over() -> Error {
    Error::new(
        ErrorKind::TransactionOver,
        "the transaction is over: it was committed or aborted, or an error ended it",
    )
}

/// The session of a transaction, for one operation at a time.
pub(super) struct Slot {
    client: ::mongodb::Client,
    state: Mutex<State>,
    /// When the first operation was sent, and with that the transaction began on the server.
    begun: OnceLock<Instant>,
    is_committing: AtomicBool,
}

struct State {
    session: ClientSession,
    over: bool,
}

impl Slot {
    /// Waits until no other operation has the session.
    pub(super) async fn turn(&self) -> Result<Turn<'_>> {
        let state = self.state.lock().await;
        if state.over {
            return Err(over());
        }
        self.begun.get_or_init(Instant::now);
        Ok(Turn { state, slot: self })
    }

    /// The error of an operation or a commit; another one if the server has ended the transaction because it was open for too
    /// long. To run it again would take as long.
    async fn explain(&self, error: Error) -> Error {
        let code = error.code();
        if code == Some(EXCEEDED_LIFETIME) {
            return expired(error, None);
        }
        if code != Some(NO_SUCH_TRANSACTION) {
            return error;
        }
        // The same code is that of a transaction which was lost with its primary.
        let age = self.begun.get().map(Instant::elapsed).unwrap_or_default();
        if age < SHORTEST_LIFETIME {
            return error;
        }
        let lifetime = self.lifetime().await;
        match age >= lifetime {
            true => expired(error, Some(lifetime)),
            false => error,
        }
    }

    /// The server's limit for open transactions, or MongoDB's default if the server does not reveal it.
    async fn lifetime(&self) -> Duration {
        let parameter = "transactionLifetimeLimitSeconds";
        let admin = self.client.database("admin");
        let answer = admin.run_command(doc! { "getParameter": 1, parameter: 1 });
        let seconds = answer.await.ok().and_then(|answer: Document| {
            let seconds = answer.get(parameter)?;
            let seconds = seconds.as_i64().or(seconds.as_i32().map(i64::from))?;
            u64::try_from(seconds).ok()
        });
        seconds.map_or(DEFAULT_LIFETIME, Duration::from_secs)
    }
}

/// MongoDB's error codes for a transaction that the server ended: for its age, and for any reason.
const EXCEEDED_LIFETIME: i32 = 290;
const NO_SUCH_TRANSACTION: i32 = 251;

/// How long MongoDB lets a transaction be open by default, and at the shortest.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);
const SHORTEST_LIFETIME: Duration = Duration::from_secs(1);

fn expired(error: Error, lifetime: Option<Duration>) -> Error {
    let lifetime = lifetime.map_or_else(String::new, |lifetime| format!(", {lifetime:?}"));
    let message = format!(
        "the transaction was open for longer than the server allows (`transactionLifetimeLimitSeconds`{lifetime}), and nothing of it was \
         kept: do less in one transaction, or raise the limit of the server"
    );
    let expired = Error::new(ErrorKind::TransactionExpired, message);
    let expired = match error.collection() {
        Some(collection) => expired.with_collection(collection),
        None => expired,
    };
    match error.code() {
        Some(code) => expired.with_code(code).with_source(error),
        None => expired.with_source(error),
    }
}

/// The use of a session by one operation.
pub(super) struct Turn<'a> {
    state: MutexGuard<'a, State>,
    slot: &'a Slot,
}

impl Turn<'_> {
    pub(super) fn session(&mut self) -> &mut ClientSession {
        &mut self.state.session
    }

    /// Ends the transaction if the operation failed, because the server has ended it then.
    pub(super) async fn settle<T>(mut self, result: Result<T>) -> Result<T> {
        let Err(error) = result else {
            return result;
        };
        let error = self.slot.explain(error).await;
        self.abort().await;
        Err(error)
    }

    async fn abort(&mut self) {
        self.state.over = true;
        // It fails if the server has forgotten the transaction, which is all that is wanted.
        let _forgotten = self.state.session.abort_transaction().await;
    }

    async fn commit(&mut self) -> Result<()> {
        self.state.over = true;
        let deadline = Instant::now() + COMMIT_PATIENCE;
        loop {
            let Err(failure) = self.state.session.commit_transaction().await else {
                return Ok(());
            };
            if !failure.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
                return Err(self.slot.explain(error::from_driver(failure)).await);
            }
            if Instant::now() >= deadline {
                return Err(Error::new(
                    ErrorKind::Connection,
                    "the answer to a commit was lost: whether the transaction took effect is unknown",
                )
                .with_source(failure));
            }
            crate::task::sleep(COMMIT_PAUSE).await;
        }
    }
}

/// Dropping it drops the session, unless an operation still has that, and the driver aborts the transaction of a dropped
/// session.
struct MongoTransaction {
    database: Database,
    slot: Arc<Slot>,
    kill: Kill,
}

impl fmt::Debug for MongoTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoTransaction")
            .field("database", &self.database.name())
            .finish_non_exhaustive()
    }
}

impl MongoTransaction {
    fn parts(&self) -> (Database, Arc<Slot>) {
        (self.database.clone(), Arc::clone(&self.slot))
    }

    /// Reads; a caller that is dropped leaves the read to its end, or to that of the transaction.
    async fn read<T: Send + 'static>(
        &self,
        max_time: Option<Duration>,
        read: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        Running::start(read, None).within(max_time).await?
    }

    async fn open_find(&self, find: Find, batches: Batches) -> Result<Box<dyn Cursor>> {
        let (database, slot) = self.parts();
        let max_time = find.max_time;
        let opened = self.read(max_time, async move {
            let mut turn = slot.turn().await?;
            let opened = find::find(&database, find, batches, turn.session()).await;
            turn.settle(opened).await
        });
        Ok(self.cursor(opened.await?, max_time))
    }

    async fn open_aggregate(
        &self,
        aggregate: Aggregate,
        batches: Batches,
    ) -> Result<Box<dyn Cursor>> {
        let (database, slot) = self.parts();
        let max_time = aggregate.max_time;
        let opened = self.read(max_time, async move {
            let mut turn = slot.turn().await?;
            let session = turn.session();
            let opened = aggregate::aggregate(&database, aggregate, batches, session).await;
            turn.settle(opened).await
        });
        Ok(self.cursor(opened.await?, max_time))
    }

    fn cursor(&self, opened: Opened, max_time: Option<Duration>) -> Box<dyn Cursor> {
        opened.in_transaction(Arc::downgrade(&self.slot), max_time)
    }
}

impl Executor for MongoTransaction {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_find(find, Batches::Usual))
    }

    fn find_all(&self, find: Find) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move { drain(self.open_find(find, Batches::Full).await?).await })
    }

    fn explain(&self, _: Find) -> BoxFuture<'_, Result<Explain>> {
        let (_, slot) = self.parts();
        Box::pin(task::finish(async move {
            let turn = slot.turn().await?;
            let refused = Error::new(
                ErrorKind::Unsupported,
                "MongoDB explains no query in a transaction: ask outside of it",
            );
            turn.settle(Err(refused)).await
        }))
    }

    fn aggregate(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_aggregate(aggregate, Batches::Usual))
    }

    fn aggregate_all(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move { drain(self.open_aggregate(aggregate, Batches::Full).await?).await })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (database, slot) = self.parts();
        Box::pin(async move {
            let max_time = find.max_time;
            let opened = self.read(max_time, async move {
                let mut turn = slot.turn().await?;
                let opened = find_each::find_each(&database, find, turn.session()).await;
                turn.settle(opened).await
            });
            Ok(self.cursor(opened.await?, max_time))
        })
    }

    /// One query after the other: MongoDB has no `$unionWith` in a transaction.
    fn find_several(&self, several: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for (query, find) in (0_i32..).zip(several.finds) {
                let found = self.find_all(find).await?;
                let marked =
                    |document: RawDocumentBuf| rawdoc! { "query": query, "document": document };
                all.extend(found.into_iter().map(marked));
            }
            Ok(self.cursor(Opened::of(all), None))
        })
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        let (database, slot) = self.parts();
        Box::pin(async move {
            let counted = self.read(count.max_time, async move {
                let mut turn = slot.turn().await?;
                let counted = find::count(&database, count, turn.session()).await;
                turn.settle(counted).await
            });
            counted.await
        })
    }

    fn distinct(&self, distinct: Distinct) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        let (database, slot) = self.parts();
        Box::pin(async move {
            let values = self.read(distinct.max_time, async move {
                let mut turn = slot.turn().await?;
                let values = distinct::distinct(&database, &distinct, turn.session()).await;
                // The failure has ended the transaction.
                let values = values.and_then(|values| match values {
                    Values::All(values) => Ok(values),
                    Values::TooBig => Err(too_big().with_collection(distinct.collection)),
                });
                turn.settle(values).await
            });
            values.await
        })
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        let (database, slot) = self.parts();
        Box::pin(task::finish(async move {
            let mut turn = slot.turn().await?;
            let inserted = insert::insert(&database, insert, Some(turn.session())).await;
            turn.settle(inserted).await
        }))
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        let (database, slot) = self.parts();
        Box::pin(task::finish(async move {
            let mut turn = slot.turn().await?;
            let updated = update::update(&database, update, Some(turn.session())).await;
            turn.settle(updated).await
        }))
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        let (database, slot) = self.parts();
        Box::pin(task::finish(async move {
            let mut turn = slot.turn().await?;
            let deleted = delete::delete(&database, delete, Some(turn.session())).await;
            turn.settle(deleted).await
        }))
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        let (database, slot) = self.parts();
        Box::pin(task::finish(async move {
            let mut turn = slot.turn().await?;
            let session = Some(turn.session());
            let found = find_and_modify::find_and_modify(&database, modify, session).await;
            turn.settle(found).await
        }))
    }

    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWritten>> {
        let (database, slot) = self.parts();
        Box::pin(task::finish(async move {
            let mut turn = slot.turn().await?;
            let done = bulk_write::bulk_write(&database, bulk, Some(turn.session())).await;
            if done.results.iter().any(Written::is_failed) {
                turn.abort().await;
            }
            Ok(done)
        }))
    }
}

impl Transaction for MongoTransaction {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        let slot = Arc::clone(&self.slot);
        Box::pin(task::finish(async move {
            slot.is_committing.store(true, Ordering::Relaxed);
            slot.turn().await?.commit().await
        }))
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        let (slot, kill) = (Arc::clone(&self.slot), self.kill.clone());
        Box::pin(async move {
            // An error is an end too: the transaction was over, or the runtime shuts down and drops the session.
            let _ended = task::finish(abort(slot, kill)).await;
        })
    }
}

/// Aborts the transaction. An operation that is under way is ended, as it would go on for as long as it takes.
async fn abort(slot: Arc<Slot>, kill: Kill) -> Result<()> {
    let aborted = Box::pin(async {
        slot.turn().await?.abort().await;
        Ok(())
    });
    let is_busy = slot.state.try_lock().is_err();
    if is_busy && !slot.is_committing.load(Ordering::Relaxed) {
        kill.until_ended(aborted).await;
        return Ok(());
    }
    aborted.await
}

impl Drop for MongoTransaction {
    /// Ends an operation that is under way, which would otherwise keep the session until its end.
    fn drop(&mut self) {
        let is_busy = self.slot.state.try_lock().is_err();
        if is_busy && !self.slot.is_committing.load(Ordering::Relaxed) {
            let (slot, kill) = (Arc::clone(&self.slot), self.kill.clone());
            crate::task::spawn(abort(slot, kill));
        }
    }
}

fn too_big() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the distinct values are more than 16 MB, which MongoDB does not give in a transaction: ask outside of it, or group by the field",
    )
}
