//! What background work has of a database: it keeps none open.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bson::{RawBson, RawDocumentBuf};

use super::operation::{
    Aggregate, BulkWrite, BulkWritten, Count, Delete, Deleted, Distinct, Explain, Find,
    FindAndModify, FindEach, FindSeveral, Index, Insert, ShardKey, Update, Updated, Watch,
};
use super::{Backend, BoxFuture, Capabilities, ChangeCursor, Cursor, Executor, Transaction};
use crate::{Error, ErrorKind, Result};

/// A backend for work that nobody waits for. It does not keep the backend from being dropped: then the next operation is
/// an error of kind [`Closed`](ErrorKind::Closed), and what is left stays pending in the database.
#[derive(Debug)]
pub(crate) struct Background {
    backend: Weak<dyn Backend>,
    capabilities: Capabilities,
}

impl Background {
    pub(crate) fn of(backend: &Arc<dyn Backend>) -> Self {
        Self {
            backend: Arc::downgrade(backend),
            capabilities: backend.capabilities(),
        }
    }

    /// Runs one operation, which keeps the backend open until it is done.
    fn run<'a, T, F>(
        &'a self,
        operation: impl FnOnce(Arc<dyn Backend>) -> F + Send + 'a,
    ) -> BoxFuture<'a, Result<T>>
    where
        F: Future<Output = Result<T>> + Send + 'a,
    {
        Box::pin(async move {
            let backend = self.backend.upgrade().ok_or_else(closed)?;
            operation(backend).await
        })
    }
}

fn closed() -> Error {
    let message = "the database was dropped before background work on it was done; what is left stays pending";
    Error::new(ErrorKind::Closed, message)
}

impl Executor for Background {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run(|backend| async move { backend.find(find).await })
    }

    fn find_all(&self, find: Find) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        self.run(|backend| async move { backend.find_all(find).await })
    }

    fn explain(&self, find: Find) -> BoxFuture<'_, Result<Explain>> {
        self.run(|backend| async move { backend.explain(find).await })
    }

    fn aggregate(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run(|backend| async move { backend.aggregate(aggregate).await })
    }

    fn aggregate_all(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        self.run(|backend| async move { backend.aggregate_all(aggregate).await })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run(|backend| async move { backend.find_each(find).await })
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run(|backend| async move { backend.find_several(find).await })
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        self.run(|backend| async move { backend.count(count).await })
    }

    fn distinct(&self, distinct: Distinct) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        self.run(|backend| async move { backend.distinct(distinct).await })
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        self.run(|backend| async move { backend.insert(insert).await })
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        self.run(|backend| async move { backend.update(update).await })
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        self.run(|backend| async move { backend.delete(delete).await })
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        self.run(|backend| async move { backend.find_and_modify(modify).await })
    }

    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWritten>> {
        self.run(|backend| async move { backend.bulk_write(bulk).await })
    }
}

impl Backend for Background {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.run(|backend| async move { backend.list_collections().await })
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run(move |backend| async move { backend.create_collection(name).await })
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run(move |backend| async move { backend.drop_collection(name).await })
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        self.run(move |backend| async move { backend.list_indexes(collection).await })
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        self.run(move |backend| async move { backend.create_indexes(collection, indexes).await })
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run(move |backend| async move { backend.drop_index(collection, name).await })
    }

    fn set_expiry<'a>(
        &'a self,
        collection: &'a str,
        index: &'a str,
        after: Duration,
    ) -> BoxFuture<'a, Result<()>> {
        self.run(move |backend| async move { backend.set_expiry(collection, index, after).await })
    }

    fn shard_key_of<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<ShardKey>>> {
        self.run(move |backend| async move { backend.shard_key_of(collection).await })
    }

    fn shard_collection<'a>(
        &'a self,
        collection: &'a str,
        key: ShardKey,
    ) -> BoxFuture<'a, Result<()>> {
        self.run(move |backend| async move { backend.shard_collection(collection, key).await })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.run(|backend| async move { backend.close().await })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn Transaction>>> {
        self.run(|backend| async move {
            let transaction: Arc<dyn Transaction> = Arc::new(BackgroundTransaction {
                transaction: backend.begin().await?,
                backend: Arc::downgrade(&backend),
            });
            Ok(transaction)
        })
    }

    fn watch(&self, watch: Watch) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        self.run(|backend| async move { backend.watch(watch).await })
    }
}

/// A transaction of background work. It ends with the first operation behind the drop of the backend.
#[derive(Debug)]
struct BackgroundTransaction {
    transaction: Arc<dyn Transaction>,
    backend: Weak<dyn Backend>,
}

impl BackgroundTransaction {
    fn run<'a, T: Send + 'a>(
        &'a self,
        operation: impl FnOnce(&'a dyn Transaction) -> BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        match self.backend.strong_count() {
            0 => Box::pin(async { Err(closed()) }),
            _ => operation(&*self.transaction),
        }
    }
}

impl Executor for BackgroundTransaction {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run(|transaction| transaction.find(find))
    }

    fn find_all(&self, find: Find) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        self.run(|transaction| transaction.find_all(find))
    }

    fn explain(&self, find: Find) -> BoxFuture<'_, Result<Explain>> {
        self.run(|transaction| transaction.explain(find))
    }

    fn aggregate(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run(|transaction| transaction.aggregate(aggregate))
    }

    fn aggregate_all(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        self.run(|transaction| transaction.aggregate_all(aggregate))
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run(|transaction| transaction.find_each(find))
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run(|transaction| transaction.find_several(find))
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        self.run(|transaction| transaction.count(count))
    }

    fn distinct(&self, distinct: Distinct) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        self.run(|transaction| transaction.distinct(distinct))
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        self.run(|transaction| transaction.insert(insert))
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        self.run(|transaction| transaction.update(update))
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        self.run(|transaction| transaction.delete(delete))
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        self.run(|transaction| transaction.find_and_modify(modify))
    }

    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWritten>> {
        self.run(|transaction| transaction.bulk_write(bulk))
    }
}

impl Transaction for BackgroundTransaction {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        self.run(|transaction| transaction.commit())
    }

    fn commit_behind_others(&self) -> BoxFuture<'_, Result<()>> {
        self.run(|transaction| transaction.commit_behind_others())
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        self.transaction.abort()
    }
}
