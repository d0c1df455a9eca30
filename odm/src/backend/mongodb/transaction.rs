//! Transactions on a session of the driver.

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
    action::Action,
    bson::{Document, doc},
    error::UNKNOWN_TRANSACTION_COMMIT_RESULT,
    options::{ReadConcern, ReadPreference, SelectionCriteria},
};
use bson::{RawBson, RawDocumentBuf, rawdoc};
use tokio::sync::{Mutex, MutexGuard};

use super::{
    aggregate, bulk_write,
    cancellation::{DriverCall, SessionKill, SessionKiller},
    cursor::{BatchSize, OpenedRead},
    delete,
    distinct::{self, DistinctValues},
    error, find, find_and_modify, find_each, insert, task, update,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BackendTransaction, BoxFuture, Cursor, Executor,
        operation::{
            AggregateOperation, BulkItemOutcome, BulkWrite, BulkWriteResult, CountOperation,
            DeleteOperation, DeleteResult, DistinctOperation, Explain, FindAndModify, FindEach,
            FindOperation, FindSeveral, InsertOperation, Unmatched, UpdateOperation, UpdateResult,
        },
        read_to_end,
    },
};

/// The time to retry a commit with an unknown outcome, which outlasts the election of a new primary.
const COMMIT_RETRY_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause before a commit is retried.
const COMMIT_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Begins a transaction.
pub(super) async fn begin_transaction(
    database: Database,
    killer: Arc<SessionKiller>,
) -> Result<Arc<dyn BackendTransaction>> {
    let session = database.client().start_session().await;
    let mut session = session.map_err(error::from_driver)?;
    // A majority has the commit in its journal.
    let writes = database.write_concern().cloned();
    session
        .start_transaction()
        .optional(writes, |action, writes| action.write_concern(writes))
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(ReadConcern::snapshot())
        .await
        .map_err(error::from_driver)?;
    let kill = SessionKill {
        killer,
        session: Arc::new(session.id().clone().into()),
    };
    let slot = Arc::new(SessionSlot {
        client: database.client().clone(),
        state: Mutex::new(SlotState {
            session,
            is_over: false,
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

/// The error of every call after the end of a transaction.
pub(super) fn transaction_over() -> Error {
    Error::new(
        ErrorKind::TransactionOver,
        "the transaction is over: it was committed or aborted, or an earlier error ended it",
    )
}

/// The session of a transaction, for one operation at a time.
pub(super) struct SessionSlot {
    client: ::mongodb::Client,
    state: Mutex<SlotState>,
    /// The time of the first operation. The transaction begins on the server with its first operation.
    begun: OnceLock<Instant>,
    is_committing: AtomicBool,
}

struct SlotState {
    session: ClientSession,
    is_over: bool,
}

impl SessionSlot {
    /// Waits until no other operation uses the session.
    pub(super) async fn lock_session(&self) -> Result<SessionGuard<'_>> {
        let state = self.state.lock().await;
        if state.is_over {
            return Err(transaction_over());
        }
        self.begun.get_or_init(Instant::now);
        Ok(SessionGuard { state, slot: self })
    }

    /// Replaces the error of an operation or a commit if the server has ended the transaction for its age.
    ///
    /// The new error tells the caller not to retry: a repetition would take as long.
    async fn explain_expiry(&self, error: Error) -> Error {
        let code = error.code();
        if code == Some(EXCEEDED_LIFETIME_CODE) {
            return transaction_expired(error, None);
        }
        if code != Some(NO_SUCH_TRANSACTION_CODE) {
            return error;
        }
        // The server also returns this code for a transaction that was lost with its primary. So compare the age with the limit.
        let age = self.begun.get().map(Instant::elapsed).unwrap_or_default();
        if age < MIN_TRANSACTION_LIFETIME {
            return error;
        }
        let lifetime = self.lifetime_limit().await;
        match age >= lifetime {
            true => transaction_expired(error, Some(lifetime)),
            false => error,
        }
    }

    /// Returns the server's limit for open transactions, or MongoDB's default if the server does not reveal the limit.
    async fn lifetime_limit(&self) -> Duration {
        let parameter = "transactionLifetimeLimitSeconds";
        let admin = self.client.database("admin");
        let answer = admin.run_command(doc! { "getParameter": 1, parameter: 1 });
        let seconds = answer.await.ok().and_then(|answer: Document| {
            let seconds = answer.get(parameter)?;
            let seconds = seconds.as_i64().or(seconds.as_i32().map(i64::from))?;
            u64::try_from(seconds).ok()
        });
        seconds.map_or(DEFAULT_TRANSACTION_LIFETIME, Duration::from_secs)
    }
}

/// MongoDB's codes for a transaction that the server ended: for its age, and for any reason.
const EXCEEDED_LIFETIME_CODE: i32 = 290;
const NO_SUCH_TRANSACTION_CODE: i32 = 251;

/// MongoDB's default and minimum for the lifetime of a transaction.
const DEFAULT_TRANSACTION_LIFETIME: Duration = Duration::from_secs(60);
const MIN_TRANSACTION_LIFETIME: Duration = Duration::from_secs(1);

fn transaction_expired(error: Error, lifetime: Option<Duration>) -> Error {
    let lifetime = lifetime.map_or_else(String::new, |lifetime| format!(", {lifetime:?}"));
    let message = format!(
        "the transaction exceeded the server's time limit (`transactionLifetimeLimitSeconds`{lifetime}) and was rolled back: \
         do less in one transaction, or raise the limit on the server"
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

/// The exclusive use of a transaction's session by one operation.
pub(super) struct SessionGuard<'a> {
    state: MutexGuard<'a, SlotState>,
    slot: &'a SessionSlot,
}

impl SessionGuard<'_> {
    pub(super) fn session(&mut self) -> &mut ClientSession {
        &mut self.state.session
    }

    /// Ends the transaction if the operation failed, because the server has ended the transaction as well.
    pub(super) async fn end_on_error<T>(mut self, result: Result<T>) -> Result<T> {
        let Err(error) = result else {
            return result;
        };
        let error = self.slot.explain_expiry(error).await;
        self.abort_session().await;
        Err(error)
    }

    async fn abort_session(&mut self) {
        self.state.is_over = true;
        // The abort fails if the server has already discarded the transaction, which is the desired state.
        let _result = self.state.session.abort_transaction().await;
    }

    async fn commit_with_retry(&mut self) -> Result<()> {
        self.state.is_over = true;
        let deadline = Instant::now() + COMMIT_RETRY_TIMEOUT;
        loop {
            let Err(failure) = self.state.session.commit_transaction().await else {
                return Ok(());
            };
            if !failure.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
                return Err(self.slot.explain_expiry(error::from_driver(failure)).await);
            }
            if Instant::now() >= deadline {
                return Err(Error::new(
                    ErrorKind::Connection,
                    "the answer to the commit was lost: the outcome of the transaction is unknown",
                )
                .with_source(failure));
            }
            crate::session::task::sleep(COMMIT_RETRY_PAUSE).await;
        }
    }
}

/// A transaction of MongoDB.
///
/// Dropping this value drops the session, unless an operation still uses the session. The driver aborts the transaction of a
/// dropped session.
struct MongoTransaction {
    database: Database,
    slot: Arc<SessionSlot>,
    kill: SessionKill,
}

impl fmt::Debug for MongoTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoTransaction")
            .field("database", &self.database.name())
            .finish_non_exhaustive()
    }
}

impl MongoTransaction {
    fn database_and_slot(&self) -> (Database, Arc<SessionSlot>) {
        (self.database.clone(), Arc::clone(&self.slot))
    }

    /// Runs a read. If the caller is dropped, the read continues until its end or the end of the transaction.
    async fn run_read<T: Send + 'static>(
        &self,
        max_time: Option<Duration>,
        read: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        DriverCall::spawn_call(read, None)
            .finish_within(max_time)
            .await?
    }

    async fn open_find(&self, find: FindOperation, batches: BatchSize) -> Result<Box<dyn Cursor>> {
        let (database, slot) = self.database_and_slot();
        let max_time = find.options.max_time;
        let opened = self.run_read(max_time, async move {
            let mut turn = slot.lock_session().await?;
            let opened = find::open_find(&database, find, batches, turn.session()).await;
            turn.end_on_error(opened).await
        });
        Ok(self.cursor_in_transaction(opened.await?, max_time))
    }

    async fn open_aggregate(
        &self,
        aggregate: AggregateOperation,
        batches: BatchSize,
    ) -> Result<Box<dyn Cursor>> {
        let (database, slot) = self.database_and_slot();
        let max_time = aggregate.options.max_time;
        let opened = self.run_read(max_time, async move {
            let mut turn = slot.lock_session().await?;
            let session = turn.session();
            let opened = aggregate::open_aggregate(&database, aggregate, batches, session).await;
            turn.end_on_error(opened).await
        });
        Ok(self.cursor_in_transaction(opened.await?, max_time))
    }

    fn cursor_in_transaction(
        &self,
        opened: OpenedRead,
        max_time: Option<Duration>,
    ) -> Box<dyn Cursor> {
        opened.in_transaction(Arc::downgrade(&self.slot), max_time)
    }
}

impl Executor for MongoTransaction {
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_find(find, BatchSize::ServerDefault))
    }

    fn find_all(&self, find: FindOperation) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(
            async move { read_to_end(self.open_find(find, BatchSize::FullReplies).await?).await },
        )
    }

    fn explain(&self, _: FindOperation) -> BoxFuture<'_, Result<Explain>> {
        let (_, slot) = self.database_and_slot();
        Box::pin(task::run_to_end(async move {
            let turn = slot.lock_session().await?;
            let unsupported = Error::new(
                ErrorKind::Unsupported,
                "MongoDB cannot explain a query in a transaction: explain the query outside of the transaction",
            );
            turn.end_on_error(Err(unsupported)).await
        }))
    }

    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(self.open_aggregate(aggregate, BatchSize::ServerDefault))
    }

    fn aggregate_all(
        &self,
        aggregate: AggregateOperation,
    ) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            read_to_end(
                self.open_aggregate(aggregate, BatchSize::FullReplies)
                    .await?,
            )
            .await
        })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (database, slot) = self.database_and_slot();
        Box::pin(async move {
            let max_time = find.options.max_time;
            let opened = self.run_read(max_time, async move {
                let mut turn = slot.lock_session().await?;
                let opened = find_each::open_find_each(&database, find, turn.session()).await;
                turn.end_on_error(opened).await
            });
            Ok(self.cursor_in_transaction(opened.await?, max_time))
        })
    }

    /// Runs the queries one after another: MongoDB has no `$unionWith` in a transaction.
    fn find_several(&self, several: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for (query, find) in (0_i32..).zip(several.finds) {
                let documents = self.find_all(find).await?;
                let numbered =
                    |document: RawDocumentBuf| rawdoc! { "query": query, "document": document };
                all.extend(documents.into_iter().map(numbered));
            }
            Ok(self.cursor_in_transaction(OpenedRead::from_documents(all), None))
        })
    }

    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>> {
        let (database, slot) = self.database_and_slot();
        Box::pin(async move {
            let counted = self.run_read(count.options.max_time, async move {
                let mut turn = slot.lock_session().await?;
                let counted = find::count_documents(&database, count, turn.session()).await;
                turn.end_on_error(counted).await
            });
            counted.await
        })
    }

    fn distinct(&self, distinct: DistinctOperation) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        let (database, slot) = self.database_and_slot();
        Box::pin(async move {
            let values = self.run_read(distinct.options.max_time, async move {
                let mut turn = slot.lock_session().await?;
                let values = distinct::read_distinct(&database, &distinct, turn.session()).await;
                // The `distinct` command has failed, and a failure ends the transaction. So the values cannot be read by groups
                // as outside.
                let values = values.and_then(|values| match values {
                    DistinctValues::All(values) => Ok(values),
                    DistinctValues::TooBig => {
                        Err(distinct_too_big().with_collection(distinct.collection))
                    }
                });
                turn.end_on_error(values).await
            });
            values.await
        })
    }

    fn insert(&self, insert: InsertOperation) -> BoxFuture<'_, Result<()>> {
        let (database, slot) = self.database_and_slot();
        Box::pin(task::run_to_end(async move {
            let mut turn = slot.lock_session().await?;
            let inserted = insert::insert_documents(&database, insert, Some(turn.session())).await;
            turn.end_on_error(inserted).await
        }))
    }

    fn update(&self, update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>> {
        let (database, slot) = self.database_and_slot();
        Box::pin(task::run_to_end(async move {
            let mut turn = slot.lock_session().await?;
            let updated = update::update_documents(&database, update, Some(turn.session())).await;
            turn.end_on_error(updated).await
        }))
    }

    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>> {
        let (database, slot) = self.database_and_slot();
        Box::pin(task::run_to_end(async move {
            let mut turn = slot.lock_session().await?;
            let deleted = delete::delete_documents(&database, delete, Some(turn.session())).await;
            turn.end_on_error(deleted).await
        }))
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        let (database, slot) = self.database_and_slot();
        Box::pin(task::run_to_end(async move {
            let mut turn = slot.lock_session().await?;
            let session = Some(turn.session());
            let document = find_and_modify::find_and_modify(&database, modify, session).await;
            turn.end_on_error(document).await
        }))
    }

    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        let (database, slot) = self.database_and_slot();
        Box::pin(task::run_to_end(async move {
            let mut turn = slot.lock_session().await?;
            let unmatched: Vec<_> = bulk.writes.iter().map(|item| item.unmatched).collect();
            let result = bulk_write::bulk_write(&database, bulk, Some(turn.session())).await;
            let ends = |(outcome, unmatched): (&BulkItemOutcome, &Unmatched)| {
                let is_unmatched = matches!(outcome, BulkItemOutcome::NotApplied);
                outcome.is_failed() || is_unmatched && *unmatched == Unmatched::Rollback
            };
            if result.results.iter().zip(&unmatched).any(ends) {
                turn.abort_session().await;
            }
            Ok(result)
        }))
    }
}

impl BackendTransaction for MongoTransaction {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        let slot = Arc::clone(&self.slot);
        Box::pin(task::run_to_end(async move {
            slot.is_committing.store(true, Ordering::Relaxed);
            slot.lock_session().await?.commit_with_retry().await
        }))
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        let (slot, kill) = (Arc::clone(&self.slot), self.kill.clone());
        Box::pin(async move {
            // An error means that the transaction has ended too: it was over, or the runtime is shutting down and drops the
            // session.
            let _result = task::run_to_end(abort_transaction(slot, kill)).await;
        })
    }
}

/// Aborts the transaction. Kills a running operation first, because the abort would wait for its end.
async fn abort_transaction(slot: Arc<SessionSlot>, kill: SessionKill) -> Result<()> {
    let aborted = Box::pin(async {
        slot.lock_session().await?.abort_session().await;
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
    /// Kills a running operation, which would otherwise keep the session until its end.
    fn drop(&mut self) {
        let is_busy = self.slot.state.try_lock().is_err();
        if is_busy && !self.slot.is_committing.load(Ordering::Relaxed) {
            let (slot, kill) = (Arc::clone(&self.slot), self.kill.clone());
            crate::session::task::spawn(abort_transaction(slot, kill));
        }
    }
}

fn distinct_too_big() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the distinct values exceed 16 MB, which MongoDB cannot return in a transaction: read the values outside of the \
         transaction, or group by the field",
    )
}
