//! The common code of backends that wrap a backend.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use bson::{RawBson, RawDocumentBuf};

use super::{
    Backend, BackendTransaction, BoxFuture, Capabilities, ChangeCursor, CompactionReport, Cursor,
    Durability, Executor,
    operation::{
        AggregateOperation, BulkItemOutcome, BulkWrite, BulkWriteResult, CollectionDefinition,
        CountOperation, DeleteOperation, DeleteResult, DistinctOperation, Explain, FindAndModify,
        FindEach, FindOperation, FindSeveral, Index, InsertOperation, Operation, ShardKey,
        UpdateOperation, UpdateResult, WatchOperation,
    },
};
use crate::{Error, Result};

/// A wrapper around a backend or a transaction. Every operation passes through the wrapper.
///
/// An implementation is a [`Backend`] or a [`BackendTransaction`], like the wrapped executor. Examples are
/// [`Recorder`](super::Recorder) and [`Faults`](super::Faults).
pub trait Wrapper: fmt::Debug + Send + Sync + 'static {
    /// `dyn Backend` or `dyn BackendTransaction`.
    type Inner: Executor + ?Sized;

    /// Returns the wrapped executor.
    fn inner(&self) -> &Self::Inner;

    /// Performs an operation by awaiting `run`, or fails without awaiting `run`.
    fn perform<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        run: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>>;

    /// Wraps a new transaction in the same wrapper.
    fn wrap_transaction(
        &self,
        transaction: Arc<dyn BackendTransaction>,
    ) -> Arc<dyn BackendTransaction>;

    /// Wraps the [reads of the application](Backend::client_reads) in the same wrapper.
    ///
    /// If this method returns `None`, these reads pass through the wrapper as ordinary reads.
    fn wrap_client_reads(&self, reads: Arc<dyn Executor>) -> Option<Arc<dyn Executor>> {
        let _ = reads;
        None
    }

    /// Wraps the backend [with a durability](Backend::with_durability) in the same wrapper.
    ///
    /// If this method returns `None`, all writes have the durability of the wrapped backend, as on a backend with a single durability.
    fn wrap_backend(&self, backend: Arc<dyn Backend>) -> Option<Arc<dyn Backend>> {
        let _ = backend;
        None
    }

    /// Returns the capabilities to report, given the capabilities of the wrapped executor.
    fn capabilities(&self, inner: Capabilities) -> Capabilities {
        inner
    }

    /// Whether a commit or an abort reaches the wrapped transaction.
    #[doc(hidden)]
    fn ends_inner(&self) -> bool {
        true
    }

    /// Receives the failure of a write in a bulk write. The bulk write itself succeeds.
    #[doc(hidden)]
    fn note_failure(&self, error: &Error) {
        let _ = error;
    }

    /// Changes an insert before its execution.
    fn amend_insert(&self, insert: &mut InsertOperation) {
        let _ = insert;
    }

    /// Changes an update before its execution.
    fn amend_update(&self, update: &mut UpdateOperation) {
        let _ = update;
    }
}

impl<W: Wrapper> Executor for W {
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let operation = Operation::Find(find.clone());
        self.perform(operation, self.inner().find(find))
    }

    fn find_all(&self, find: FindOperation) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        let operation = Operation::Find(find.clone());
        self.perform(operation, self.inner().find_all(find))
    }

    fn explain(&self, find: FindOperation) -> BoxFuture<'_, Result<Explain>> {
        let operation = Operation::Explain(find.clone());
        self.perform(operation, self.inner().explain(find))
    }

    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let operation = Operation::Aggregate(aggregate.clone());
        self.perform(operation, self.inner().aggregate(aggregate))
    }

    fn aggregate_all(
        &self,
        aggregate: AggregateOperation,
    ) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        let operation = Operation::Aggregate(aggregate.clone());
        self.perform(operation, self.inner().aggregate_all(aggregate))
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let operation = Operation::FindEach(find.clone());
        self.perform(operation, self.inner().find_each(find))
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let operation = Operation::FindSeveral(find.clone());
        self.perform(operation, self.inner().find_several(find))
    }

    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>> {
        let operation = Operation::Count(count.clone());
        self.perform(operation, self.inner().count(count))
    }

    fn distinct(&self, distinct: DistinctOperation) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        let operation = Operation::Distinct(distinct.clone());
        self.perform(operation, self.inner().distinct(distinct))
    }

    fn insert(&self, mut insert: InsertOperation) -> BoxFuture<'_, Result<()>> {
        self.amend_insert(&mut insert);
        let operation = Operation::Insert(insert.clone());
        self.perform(operation, self.inner().insert(insert))
    }

    fn update(&self, mut update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>> {
        self.amend_update(&mut update);
        let operation = Operation::Update(update.clone());
        self.perform(operation, self.inner().update(update))
    }

    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>> {
        let operation = Operation::Delete(delete.clone());
        self.perform(operation, self.inner().delete(delete))
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        let operation = Operation::FindAndModify(modify.clone());
        self.perform(operation, self.inner().find_and_modify(modify))
    }

    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        let operation = Operation::BulkWrite(bulk.clone());
        let run = async move {
            let result = self.inner().bulk_write(bulk).await?;
            for outcome in &result.results {
                if let BulkItemOutcome::Failed(error) = outcome {
                    self.note_failure(error);
                }
            }
            Ok(result)
        };
        self.perform(operation, Box::pin(run))
    }
}

impl<W: Wrapper<Inner = dyn Backend>> Backend for W {
    fn capabilities(&self) -> Capabilities {
        Wrapper::capabilities(self, self.inner().capabilities())
    }

    fn client_reads(&self) -> Option<Arc<dyn Executor>> {
        self.wrap_client_reads(self.inner().client_reads()?)
    }

    fn with_durability(&self, durability: Durability) -> Option<Arc<dyn Backend>> {
        self.wrap_backend(self.inner().with_durability(durability)?)
    }

    fn system_name(&self) -> &'static str {
        self.inner().system_name()
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.perform(Operation::ListCollections, self.inner().list_collections())
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let operation = Operation::CreateCollection(name.to_owned().into());
        self.perform(operation, self.inner().create_collection(name))
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let operation = Operation::DropCollection(name.to_owned().into());
        self.perform(operation, self.inner().drop_collection(name))
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        let operation = Operation::ListIndexes(collection.to_owned().into());
        self.perform(operation, self.inner().list_indexes(collection))
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        let operation = Operation::CreateIndexes(collection.to_owned().into(), indexes.clone());
        self.perform(operation, self.inner().create_indexes(collection, indexes))
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let operation = Operation::DropIndex(collection.to_owned().into(), name.to_owned());
        self.perform(operation, self.inner().drop_index(collection, name))
    }

    fn set_expiry<'a>(
        &'a self,
        collection: &'a str,
        index: &'a str,
        after: Duration,
    ) -> BoxFuture<'a, Result<()>> {
        let name = collection.to_owned().into();
        let operation = Operation::SetExpiry(name, index.to_owned(), after);
        self.perform(operation, self.inner().set_expiry(collection, index, after))
    }

    fn shard_key_of<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<ShardKey>>> {
        let operation = Operation::ShardKeyOf(collection.to_owned().into());
        self.perform(operation, self.inner().shard_key_of(collection))
    }

    fn shard_collection<'a>(
        &'a self,
        collection: &'a str,
        key: ShardKey,
    ) -> BoxFuture<'a, Result<()>> {
        let operation = Operation::ShardCollection(collection.to_owned().into(), key.clone());
        self.perform(operation, self.inner().shard_collection(collection, key))
    }

    fn list_definitions(&self) -> BoxFuture<'_, Result<Vec<CollectionDefinition>>> {
        self.perform(Operation::ListDefinitions, self.inner().list_definitions())
    }

    fn ensure_definable(&self, definition: &CollectionDefinition) -> Result<()> {
        self.inner().ensure_definable(definition)
    }

    fn create_defined(&self, definition: CollectionDefinition) -> BoxFuture<'_, Result<()>> {
        let operation = Operation::CreateDefined(definition.clone());
        self.perform(operation, self.inner().create_defined(definition))
    }

    fn backup<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<()>> {
        self.inner().backup(path)
    }

    fn compact(&self) -> BoxFuture<'_, Result<CompactionReport>> {
        self.inner().compact()
    }

    #[cfg(feature = "serve")]
    fn engine_database(&self) -> Option<odm_engine::Database> {
        self.inner().engine_database()
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner().close()
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn BackendTransaction>>> {
        Box::pin(async {
            let transaction = self.perform(Operation::Begin, self.inner().begin()).await?;
            Ok(self.wrap_transaction(transaction))
        })
    }

    fn watch(&self, watch: WatchOperation) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        let operation = Operation::Watch(watch.clone());
        self.perform(operation, self.inner().watch(watch))
    }
}

impl<W: Wrapper<Inner = dyn BackendTransaction>> BackendTransaction for W {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        let commit = match self.ends_inner() {
            true => self.inner().commit(),
            false => Box::pin(async { Ok(()) }),
        };
        self.perform(Operation::Commit, commit)
    }

    fn commit_low_priority(&self) -> BoxFuture<'_, Result<()>> {
        if !self.ends_inner() {
            return self.commit();
        }
        self.perform(Operation::Commit, self.inner().commit_low_priority())
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let abort = Box::pin(async {
                if self.ends_inner() {
                    self.inner().abort().await;
                }
                Ok(())
            });
            // An abort returns no error.
            let _result = self.perform(Operation::Abort, abort).await;
        })
    }
}
