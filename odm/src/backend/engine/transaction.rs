//! Transactions of the engine.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use odm_engine::Transaction as EngineTransactionHandle;

use super::{
    convert,
    cursor::{EngineCursor, Fetched},
    error, insert_into, is_by_id, work,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture, Cursor, Executor, Transaction,
        operation::{Count, Delete, Deleted, Find, FindEach, Insert, Update, Updated},
    },
};

/// Dropping it aborts it, once no operation has it any more.
#[derive(Debug)]
pub(super) struct EngineTransaction {
    transaction: Arc<EngineTransactionHandle>,
    /// The engine takes a second commit for a repetition of the first.
    committed: AtomicBool,
}

impl EngineTransaction {
    pub(super) fn shared(transaction: EngineTransactionHandle) -> Arc<dyn Transaction> {
        Arc::new(Self {
            transaction: Arc::new(transaction),
            committed: AtomicBool::new(false),
        })
    }
}

impl Executor for EngineTransaction {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let transaction = Arc::clone(&self.transaction);
        Box::pin(async move {
            let collection = find.collection.clone();
            let by_id = is_by_id(&find.filter);
            let run = move || {
                let found = transaction.find(&collection, &convert::find(find));
                let found = found.and_then(Fetched::first);
                found.map_err(|failure| error::in_collection(failure, &collection))
            };
            let first = if by_id {
                run()?
            } else {
                work::blocking(run).await?
            };
            Ok(EngineCursor::boxed(first))
        })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let transaction = Arc::clone(&self.transaction);
        Box::pin(async move {
            let found = work::blocking(move || {
                let collection = find.collection.clone();
                let found = transaction.find_each(&collection, &convert::find_each(find));
                found.map_err(|failure| error::in_collection(failure, &collection))
            });
            Ok(EngineCursor::boxed(Fetched::keyed(found.await?)))
        })
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        let transaction = Arc::clone(&self.transaction);
        Box::pin(work::blocking(move || {
            let counted = transaction.count(&count.collection, &count.filter, count.limit);
            counted.map_err(|failure| error::in_collection(failure, &count.collection))
        }))
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        let transaction = Arc::clone(&self.transaction);
        Box::pin(work::blocking(move || {
            insert_into(insert, |collection, documents| {
                transaction.insert(collection, documents)
            })
        }))
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        let transaction = Arc::clone(&self.transaction);
        Box::pin(work::blocking(move || {
            let collection = update.collection.clone();
            let updated = transaction.update(&collection, &convert::update(update));
            updated
                .and_then(convert::updated)
                .map_err(|failure| error::in_collection(failure, &collection))
        }))
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        let transaction = Arc::clone(&self.transaction);
        Box::pin(work::blocking(move || {
            let collection = delete.collection.clone();
            let deleted = transaction.delete(&collection, &convert::delete(delete));
            deleted
                .map(convert::deleted)
                .map_err(|failure| error::in_collection(failure, &collection))
        }))
    }
}

impl Transaction for EngineTransaction {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.committed.swap(true, Ordering::Relaxed) {
                return Err(Error::new(
                    ErrorKind::TransactionOver,
                    "the transaction is over: it was committed before",
                ));
            }
            let transaction = Arc::clone(&self.transaction);
            work::blocking(move || transaction.commit().map_err(error::from_engine)).await
        })
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // It fails if the transaction was committed before, which stays.
            let _over = self.transaction.abort();
        })
    }
}
