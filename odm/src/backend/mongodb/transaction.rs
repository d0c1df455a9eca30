//! Transactions over a session of the driver.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use ::mongodb::{
    ClientSession, Database,
    error::UNKNOWN_TRANSACTION_COMMIT_RESULT,
    options::{ReadConcern, ReadPreference, SelectionCriteria},
};
use bson::{RawBson, RawDocumentBuf, rawdoc};
use tokio::sync::{Mutex, MutexGuard};

use super::{
    aggregate, bulk_write,
    cursor::{Batches, Opened},
    delete, distinct, error, find, find_and_modify, find_each, insert, task, update,
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
pub(super) async fn begin(database: Database) -> Result<Arc<dyn Transaction>> {
    let session = database.client().start_session().await;
    let mut session = session.map_err(error::from_driver)?;
    // Its write concern is the client's: a majority has it in its journal.
    session
        .start_transaction()
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(ReadConcern::snapshot())
        .await
        .map_err(error::from_driver)?;
    let slot = Arc::new(Slot(Mutex::new(State {
        session,
        over: false,
    })));
    Ok(Arc::new(MongoTransaction { database, slot }))
}

/// The error of every call after the end.
pub(super) fn over() -> Error {
    Error::new(
        ErrorKind::TransactionOver,
        "the transaction is over: it was committed or aborted, or an error ended it",
    )
}

/// The session of a transaction, for one operation at a time.
pub(super) struct Slot(Mutex<State>);

struct State {
    session: ClientSession,
    over: bool,
}

impl Slot {
    /// Waits until no other operation has the session.
    pub(super) async fn turn(&self) -> Result<Turn<'_>> {
        let state = self.0.lock().await;
        if state.over {
            Err(over())
        } else {
            Ok(Turn(state))
        }
    }
}

/// The use of a session by one operation.
pub(super) struct Turn<'a>(MutexGuard<'a, State>);

impl Turn<'_> {
    pub(super) fn session(&mut self) -> &mut ClientSession {
        &mut self.0.session
    }

    /// Ends the transaction if the operation failed, because the server has ended it then.
    pub(super) async fn settle<T>(mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.abort().await;
        }
        result
    }

    async fn abort(&mut self) {
        self.0.over = true;
        // It fails if the server has forgotten the transaction, which is all that is wanted.
        let _forgotten = self.0.session.abort_transaction().await;
    }

    async fn commit(&mut self) -> Result<()> {
        self.0.over = true;
        let deadline = Instant::now() + COMMIT_PATIENCE;
        loop {
            let Err(failure) = self.0.session.commit_transaction().await else {
                return Ok(());
            };
            if !failure.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
                return Err(error::from_driver(failure));
            }
            if Instant::now() >= deadline {
                return Err(Error::new(
                    ErrorKind::Connection,
                    "the answer to a commit was lost: whether the transaction took effect is unknown",
                )
                .with_source(failure));
            }
            tokio::time::sleep(COMMIT_PAUSE).await;
        }
    }
}

/// Dropping it drops the session, unless an operation still has that, and the driver aborts the transaction of a dropped
/// session.
struct MongoTransaction {
    database: Database,
    slot: Arc<Slot>,
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

    async fn open_find(&self, find: Find, batches: Batches) -> Result<Box<dyn Cursor>> {
        let (database, slot) = self.parts();
        let opened = task::finish(async move {
            let mut turn = slot.turn().await?;
            let opened = find::find(&database, find, batches, Some(turn.session())).await;
            turn.settle(opened).await
        });
        Ok(opened.await?.in_transaction(Arc::downgrade(&self.slot)))
    }

    async fn open_aggregate(
        &self,
        aggregate: Aggregate,
        batches: Batches,
    ) -> Result<Box<dyn Cursor>> {
        let (database, slot) = self.parts();
        let opened = task::finish(async move {
            let mut turn = slot.turn().await?;
            let session = Some(turn.session());
            let opened = aggregate::aggregate(&database, aggregate, batches, session).await;
            turn.settle(opened).await
        });
        Ok(opened.await?.in_transaction(Arc::downgrade(&self.slot)))
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
            let opened = task::finish(async move {
                let mut turn = slot.turn().await?;
                let opened = find_each::find_each(&database, find, Some(turn.session())).await;
                turn.settle(opened).await
            });
            Ok(opened.await?.in_transaction(Arc::downgrade(&self.slot)))
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
            Ok(Opened::of(all).outside_transaction())
        })
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        let (database, slot) = self.parts();
        Box::pin(task::finish(async move {
            let mut turn = slot.turn().await?;
            let counted = find::count(&database, count, Some(turn.session())).await;
            turn.settle(counted).await
        }))
    }

    fn distinct(&self, distinct: Distinct) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        let (database, slot) = self.parts();
        Box::pin(task::finish(async move {
            let mut turn = slot.turn().await?;
            let values = distinct::distinct(&database, distinct, Some(turn.session())).await;
            turn.settle(values).await
        }))
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
        Box::pin(task::finish(
            async move { slot.turn().await?.commit().await },
        ))
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        let slot = Arc::clone(&self.slot);
        Box::pin(async move {
            // An error is an end too: the transaction was over, or the runtime shuts down and drops the session.
            let _ended = task::finish(async move {
                slot.turn().await?.abort().await;
                Ok(())
            })
            .await;
        })
    }
}
