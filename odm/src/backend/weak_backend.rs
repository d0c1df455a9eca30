//! A backend that background work uses without keeping the database open.

use std::{
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use bson::{RawBson, RawDocumentBuf};

use super::{
    Backend, BackendTransaction, BoxFuture, Capabilities, ChangeCursor, CompactionReport, Cursor,
    Executor, Recorder,
    operation::{
        AggregateOperation, BulkWrite, BulkWriteResult, CollectionDefinition, CountOperation,
        DeleteOperation, DeleteResult, DistinctOperation, Explain, FindAndModify, FindEach,
        FindOperation, FindSeveral, Index, InsertOperation, ShardKey, UpdateOperation,
        UpdateResult, WatchOperation,
    },
};
use crate::{Error, ErrorKind, Result};

/// A weak handle to a backend, for background work.
///
/// The handle does not keep the backend alive. After the application has dropped every handle of the backend, the next operation
/// fails with kind [`Closed`](ErrorKind::Closed), and the rest of the work stays pending in the database.
#[derive(Debug)]
pub(crate) struct WeakBackend {
    backend: Weak<dyn Backend>,
    capabilities: Capabilities,
    system_name: &'static str,
}

impl WeakBackend {
    pub(crate) fn downgrade(backend: &Arc<dyn Backend>) -> Self {
        Self {
            backend: Arc::downgrade(backend),
            capabilities: backend.capabilities(),
            system_name: backend.system_name(),
        }
    }

    /// Returns a handle whose operations fail as after the drop of the backend.
    pub(crate) fn dropped(backend: &dyn Backend) -> Self {
        // `Weak::new` needs a sized type; `Recorder` is only an example of a backend.
        let no_backend: Weak<Recorder> = Weak::new();
        Self {
            backend: no_backend,
            capabilities: backend.capabilities(),
            system_name: backend.system_name(),
        }
    }

    /// Runs one operation. The backend stays open until the operation is done.
    fn run_operation<'a, T, F>(
        &'a self,
        operation: impl FnOnce(Arc<dyn Backend>) -> F + Send + 'a,
    ) -> BoxFuture<'a, Result<T>>
    where
        F: Future<Output = Result<T>> + Send + 'a,
    {
        Box::pin(async move {
            let backend = self.backend.upgrade().ok_or_else(database_dropped)?;
            operation(backend).await
        })
    }
}

fn database_dropped() -> Error {
    let message = "the database was dropped before its background work was done; the remaining work stays pending";
    Error::new(ErrorKind::Closed, message)
}

impl Executor for WeakBackend {
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run_operation(|backend| async move { backend.find(find).await })
    }

    fn find_all(&self, find: FindOperation) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        self.run_operation(|backend| async move { backend.find_all(find).await })
    }

    fn explain(&self, find: FindOperation) -> BoxFuture<'_, Result<Explain>> {
        self.run_operation(|backend| async move { backend.explain(find).await })
    }

    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run_operation(|backend| async move { backend.aggregate(aggregate).await })
    }

    fn aggregate_all(
        &self,
        aggregate: AggregateOperation,
    ) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        self.run_operation(|backend| async move { backend.aggregate_all(aggregate).await })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run_operation(|backend| async move { backend.find_each(find).await })
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run_operation(|backend| async move { backend.find_several(find).await })
    }

    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>> {
        self.run_operation(|backend| async move { backend.count(count).await })
    }

    fn distinct(&self, distinct: DistinctOperation) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        self.run_operation(|backend| async move { backend.distinct(distinct).await })
    }

    fn insert(&self, insert: InsertOperation) -> BoxFuture<'_, Result<()>> {
        self.run_operation(|backend| async move { backend.insert(insert).await })
    }

    fn update(&self, update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>> {
        self.run_operation(|backend| async move { backend.update(update).await })
    }

    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>> {
        self.run_operation(|backend| async move { backend.delete(delete).await })
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        self.run_operation(|backend| async move { backend.find_and_modify(modify).await })
    }

    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        self.run_operation(|backend| async move { backend.bulk_write(bulk).await })
    }
}

impl Backend for WeakBackend {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn system_name(&self) -> &'static str {
        self.system_name
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.run_operation(|backend| async move { backend.list_collections().await })
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run_operation(move |backend| async move { backend.create_collection(name).await })
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run_operation(move |backend| async move { backend.drop_collection(name).await })
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        self.run_operation(move |backend| async move { backend.list_indexes(collection).await })
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        self.run_operation(move |backend| async move {
            backend.create_indexes(collection, indexes).await
        })
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run_operation(move |backend| async move { backend.drop_index(collection, name).await })
    }

    fn set_expiry<'a>(
        &'a self,
        collection: &'a str,
        index: &'a str,
        after: Duration,
    ) -> BoxFuture<'a, Result<()>> {
        self.run_operation(move |backend| async move {
            backend.set_expiry(collection, index, after).await
        })
    }

    fn shard_key_of<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<ShardKey>>> {
        self.run_operation(move |backend| async move { backend.shard_key_of(collection).await })
    }

    fn shard_collection<'a>(
        &'a self,
        collection: &'a str,
        key: ShardKey,
    ) -> BoxFuture<'a, Result<()>> {
        self.run_operation(
            move |backend| async move { backend.shard_collection(collection, key).await },
        )
    }

    fn list_definitions(&self) -> BoxFuture<'_, Result<Vec<CollectionDefinition>>> {
        self.run_operation(|backend| async move { backend.list_definitions().await })
    }

    fn ensure_definable(&self, definition: &CollectionDefinition) -> Result<()> {
        let backend = self.backend.upgrade().ok_or_else(database_dropped)?;
        backend.ensure_definable(definition)
    }

    fn create_defined(&self, definition: CollectionDefinition) -> BoxFuture<'_, Result<()>> {
        self.run_operation(|backend| async move { backend.create_defined(definition).await })
    }

    fn backup<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<()>> {
        self.run_operation(move |backend| async move { backend.backup(path).await })
    }

    fn compact(&self) -> BoxFuture<'_, Result<CompactionReport>> {
        self.run_operation(|backend| async move { backend.compact().await })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.run_operation(|backend| async move { backend.close().await })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn BackendTransaction>>> {
        self.run_operation(|backend| async move {
            let transaction: Arc<dyn BackendTransaction> = Arc::new(WeakTransaction {
                transaction: backend.begin().await?,
                backend: Arc::downgrade(&backend),
            });
            Ok(transaction)
        })
    }

    fn watch(&self, watch: WatchOperation) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        self.run_operation(|backend| async move { backend.watch(watch).await })
    }
}

/// A transaction of background work. The first operation after the drop of the backend fails with kind
/// [`Closed`](ErrorKind::Closed).
#[derive(Debug)]
struct WeakTransaction {
    transaction: Arc<dyn BackendTransaction>,
    backend: Weak<dyn Backend>,
}

impl WeakTransaction {
    fn run_operation<'a, T: Send + 'a>(
        &'a self,
        operation: impl FnOnce(&'a dyn BackendTransaction) -> BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        match self.backend.strong_count() {
            0 => Box::pin(async { Err(database_dropped()) }),
            _ => operation(&*self.transaction),
        }
    }
}

impl Executor for WeakTransaction {
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run_operation(|transaction| transaction.find(find))
    }

    fn find_all(&self, find: FindOperation) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        self.run_operation(|transaction| transaction.find_all(find))
    }

    fn explain(&self, find: FindOperation) -> BoxFuture<'_, Result<Explain>> {
        self.run_operation(|transaction| transaction.explain(find))
    }

    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run_operation(|transaction| transaction.aggregate(aggregate))
    }

    fn aggregate_all(
        &self,
        aggregate: AggregateOperation,
    ) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        self.run_operation(|transaction| transaction.aggregate_all(aggregate))
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run_operation(|transaction| transaction.find_each(find))
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        self.run_operation(|transaction| transaction.find_several(find))
    }

    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>> {
        self.run_operation(|transaction| transaction.count(count))
    }

    fn distinct(&self, distinct: DistinctOperation) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        self.run_operation(|transaction| transaction.distinct(distinct))
    }

    fn insert(&self, insert: InsertOperation) -> BoxFuture<'_, Result<()>> {
        self.run_operation(|transaction| transaction.insert(insert))
    }

    fn update(&self, update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>> {
        self.run_operation(|transaction| transaction.update(update))
    }

    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>> {
        self.run_operation(|transaction| transaction.delete(delete))
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        self.run_operation(|transaction| transaction.find_and_modify(modify))
    }

    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        self.run_operation(|transaction| transaction.bulk_write(bulk))
    }
}

impl BackendTransaction for WeakTransaction {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        self.run_operation(|transaction| transaction.commit())
    }

    fn commit_low_priority(&self) -> BoxFuture<'_, Result<()>> {
        self.run_operation(|transaction| transaction.commit_low_priority())
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        self.transaction.abort()
    }
}
