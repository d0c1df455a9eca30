//! A backend that logs and measures every operation.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bson::{RawBson, RawDocumentBuf};
use tracing::{Level, Span};

use super::{
    Backend, BackendTransaction, BoxFuture, Capabilities, ChangeCursor, CompactionReport, Cursor,
    Executor, Trial, WeakBackend,
    operation::{
        AggregateOperation, BulkWrite, BulkWriteResult, Collection, CollectionDefinition,
        CountOperation, DeleteOperation, DeleteResult, DistinctOperation, Explain, FindAndModify,
        FindEach, FindOperation, FindSeveral, Index, InsertOperation, OperationOrigin, ReadOptions,
        ShardKey, Stage, UpdateOperation, UpdateResult, WatchOperation,
    },
};
use crate::{Error, Result};

/// The log target of one event for each backend operation.
const OPERATION_TARGET: &str = "odm::operation";

/// The settings of [`Observed`], which all executors of a database share.
#[derive(Debug)]
struct Settings {
    /// `db.system.name` in the conventions of OpenTelemetry.
    system: &'static str,
    /// The duration from which an operation is logged as slow.
    slow_operations: Duration,
    /// The place for the conflicts of a transaction.
    last_conflict: Option<Arc<LastConflict>>,
}

/// An executor that logs and measures every operation of the wrapped executor.
///
/// This is no [`Wrapper`](super::Wrapper), which copies each operation and does not see the number of documents.
///
/// The fields have the names of OpenTelemetry's conventions for databases. With the feature `metrics`, each duration also goes to
/// the histogram `db.client.operation.duration`.
#[derive(Debug)]
pub(crate) struct Observed<T: ?Sized> {
    inner: Arc<T>,
    settings: Arc<Settings>,
}

/// The last conflict of the operations of a transaction.
#[derive(Debug, Default)]
pub(crate) struct LastConflict(Mutex<Option<Error>>);

impl LastConflict {
    /// Remembers an error after which the transaction can run again.
    pub(crate) fn note(&self, error: &Error) {
        if error.is_conflict() || error.is_transient() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
    }

    pub(crate) fn get(&self) -> Option<Error> {
        let conflict = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        conflict.clone()
    }
}

impl Observed<dyn Backend> {
    pub(crate) fn new(backend: Arc<dyn Backend>, slow_operations: Duration) -> Self {
        let system = backend.system_name();
        Self {
            inner: backend,
            settings: Arc::new(Settings {
                system,
                slow_operations,
                last_conflict: None,
            }),
        }
    }

    /// Begins a transaction. The conflicts of the operations go to `last_conflict`.
    pub(crate) async fn begin_noting(
        &self,
        last_conflict: &Arc<LastConflict>,
    ) -> Result<Arc<dyn BackendTransaction>> {
        let settings = Settings {
            last_conflict: Some(Arc::clone(last_conflict)),
            ..*self.settings
        };
        Ok(Arc::new(Observed {
            inner: self.inner.begin().await?,
            settings: Arc::new(settings),
        }))
    }

    /// Returns a handle whose operations fail as after the drop of the backend.
    pub(crate) fn dropped(&self) -> Self {
        self.wrap(Arc::new(WeakBackend::dropped(&*self.inner)))
    }

    /// Returns the handle for a trial on the wrapped backend.
    pub(crate) async fn begin_trial(&self, has_transactions: bool) -> Result<(Trial, Self)> {
        let trial = Trial::begin(Arc::clone(&self.inner), has_transactions).await?;
        let handle = self.wrap(Arc::new(trial.clone()) as Arc<dyn Backend>);
        Ok((trial, handle))
    }

    /// Returns a handle for background work, which does not keep the wrapped backend open.
    pub(crate) fn downgrade(&self) -> Self {
        self.wrap(Arc::new(WeakBackend::downgrade(&self.inner)))
    }
}

/// The subject of the events of an operation.
#[derive(Debug, Clone)]
struct Subject {
    operation: &'static str,
    collection: Option<Collection>,
    /// The comment of a read.
    comment: Option<String>,
    origin: OperationOrigin,
}

impl Subject {
    fn new(operation: &'static str) -> Self {
        Self {
            operation,
            collection: None,
            comment: None,
            origin: OperationOrigin::default(),
        }
    }

    fn of(operation: &'static str, collection: impl Into<Collection>) -> Self {
        Self {
            collection: Some(collection.into()),
            ..Self::new(operation)
        }
    }

    fn of_write(operation: &'static str, collection: &Collection, origin: OperationOrigin) -> Self {
        Self {
            origin,
            ..Self::of(operation, collection.clone())
        }
    }

    fn of_read(operation: &'static str, collection: &Collection, options: &ReadOptions) -> Self {
        Self {
            comment: options.comment.clone(),
            origin: options.origin,
            ..Self::of(operation, collection.clone())
        }
    }
}

/// The report of an operation, which is logged when the report is dropped.
///
/// So an operation that the caller drops, for example after a timeout, is reported too.
struct Report {
    settings: Arc<Settings>,
    subject: Subject,
    /// The span of the typed operation. A cursor can be dropped outside of the span.
    span: Span,
    /// The time of finished waits for the backend.
    waited: Duration,
    /// The start of a wait that has not finished.
    waits_since: Option<Instant>,
    /// The number of returned, matched or deleted documents.
    documents: Option<u64>,
    error: Option<Error>,
}

impl Report {
    fn new(settings: Arc<Settings>, subject: Subject) -> Self {
        Self {
            settings,
            subject,
            span: Span::current(),
            waited: Duration::ZERO,
            waits_since: None,
            documents: None,
            error: None,
        }
    }

    /// Awaits a call of the backend.
    async fn wait<R>(&mut self, call: BoxFuture<'_, Result<R>>) -> Result<R> {
        let start = Instant::now();
        self.waits_since = Some(start);
        let result = call.await;
        self.waits_since = None;
        self.waited += start.elapsed();
        self.error = result.as_ref().err().cloned();
        if let (Some(last_conflict), Some(error)) = (&self.settings.last_conflict, &self.error) {
            last_conflict.note(error);
        }
        result
    }

    /// Returns `error.type`: the kind of the error, or `Dropped` for a call that the caller did not await to its end.
    fn error_type(&self) -> Option<String> {
        match (&self.error, self.waits_since) {
            (_, Some(_)) => Some("Dropped".to_owned()),
            (error, None) => error.as_ref().map(|error| format!("{:?}", error.kind())),
        }
    }

    fn emit(&self, duration: Duration, is_slow: bool) {
        let (system, operation) = (self.settings.system, self.subject.operation);
        let collection = self.subject.collection.as_deref();
        let comment = self.subject.comment.as_deref();
        let origin = self.subject.origin;
        let action = (!origin.action.is_empty()).then_some(origin.action);
        let (stage, step) = (
            origin.stage.map(Stage::name),
            origin.stage.map(|_| origin.step),
        );
        let (documents, error_type) = (self.documents, self.error_type());
        let milliseconds = duration.as_secs_f64() * 1_000.0;
        macro_rules! event {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    target: OPERATION_TARGET,
                    { "db.system.name" = system, "db.operation.name" = operation, "db.collection.name" = collection,
                    "db.response.returned_rows" = documents, "error.type" = error_type, duration_ms = milliseconds, comment,
                    "odm.action" = action, "odm.stage" = stage, "odm.step" = step },
                    $message
                )
            };
        }
        match is_slow {
            true => event!(warn, "slow operation"),
            false => event!(debug, "operation"),
        }
        #[cfg(feature = "metrics")]
        measure(
            system,
            operation,
            self.subject.collection.clone(),
            error_type,
            duration,
        );
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let unfinished = self.waits_since.map(|start| start.elapsed());
        let duration = self.waited + unfinished.unwrap_or_default();
        let is_slow = duration >= self.settings.slow_operations;
        let is_logged = tracing::enabled!(target: OPERATION_TARGET, Level::DEBUG);
        if is_slow || is_logged || is_measured() {
            self.span.in_scope(|| self.emit(duration, is_slow));
        }
    }
}

/// Whether durations go to a histogram.
const fn is_measured() -> bool {
    cfg!(feature = "metrics")
}

/// Adds a duration to the histogram of OpenTelemetry's conventions.
#[cfg(feature = "metrics")]
fn measure(
    system: &'static str,
    operation: &'static str,
    collection: Option<Collection>,
    error_type: Option<String>,
    duration: Duration,
) {
    let mut labels = vec![
        metrics::Label::new("db.system.name", system),
        metrics::Label::new("db.operation.name", operation),
    ];
    labels.extend(collection.map(|name| metrics::Label::new("db.collection.name", name)));
    labels.extend(error_type.map(|kind| metrics::Label::new("error.type", kind)));
    metrics::histogram!("db.client.operation.duration", labels).record(duration.as_secs_f64());
}

impl<T: ?Sized> Observed<T> {
    /// Awaits an operation, and logs its end. `count` returns the number of documents of a result.
    fn observe<'a, R: Send + 'a>(
        &'a self,
        subject: Subject,
        run: BoxFuture<'a, Result<R>>,
        count: fn(&R) -> Option<u64>,
    ) -> BoxFuture<'a, Result<R>> {
        let settings = Arc::clone(&self.settings);
        Box::pin(async move {
            let mut report = Report::new(settings, subject);
            let result = report.wait(run).await;
            report.documents = result.as_ref().ok().and_then(count);
            result
        })
    }

    /// Wraps another executor of the same database, with the same settings.
    pub(crate) fn wrap<U: ?Sized>(&self, inner: Arc<U>) -> Observed<U> {
        Observed {
            inner,
            settings: Arc::clone(&self.settings),
        }
    }

    /// Awaits an operation that opens a cursor. The operation ends with the cursor.
    fn observe_cursor<'a>(
        &'a self,
        subject: Subject,
        run: BoxFuture<'a, Result<Box<dyn Cursor>>>,
    ) -> BoxFuture<'a, Result<Box<dyn Cursor>>> {
        let settings = Arc::clone(&self.settings);
        Box::pin(async move {
            let mut report = Report::new(settings, subject);
            let cursor = report.wait(run).await?;
            report.documents = Some(0);
            let observed: Box<dyn Cursor> = Box::new(ObservedCursor { cursor, report });
            Ok(observed)
        })
    }
}

/// A cursor with the report of its operation.
struct ObservedCursor {
    cursor: Box<dyn Cursor>,
    report: Report,
}

impl Cursor for ObservedCursor {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            let batch = self.report.wait(self.cursor.next_batch()).await?;
            let returned = self.report.documents.unwrap_or_default();
            self.report.documents = Some(returned + batch.len() as u64);
            Ok(batch)
        })
    }
}

#[expect(
    clippy::ptr_arg,
    reason = "the argument is the whole result of an operation"
)]
fn length<T>(list: &Vec<T>) -> Option<u64> {
    u64::try_from(list.len()).ok()
}

fn none<T>(_: &T) -> Option<u64> {
    None
}

impl<T: Executor + ?Sized> Executor for Observed<T> {
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let subject = Subject::of_read("find", &find.collection, &find.options);
        self.observe_cursor(subject, self.inner.find(find))
    }

    fn find_all(&self, find: FindOperation) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        let subject = Subject::of_read("find", &find.collection, &find.options);
        self.observe(subject, self.inner.find_all(find), length)
    }

    fn explain(&self, find: FindOperation) -> BoxFuture<'_, Result<Explain>> {
        let subject = Subject::of_read("explain", &find.collection, &find.options);
        self.observe(subject, self.inner.explain(find), none)
    }

    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let subject = Subject::of_read("aggregate", &aggregate.collection, &aggregate.options);
        self.observe_cursor(subject, self.inner.aggregate(aggregate))
    }

    fn aggregate_all(
        &self,
        aggregate: AggregateOperation,
    ) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        let subject = Subject::of_read("aggregate", &aggregate.collection, &aggregate.options);
        let run = self.inner.aggregate_all(aggregate);
        self.observe(subject, run, length)
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let subject = Subject::of_read("find", &find.collection, &find.options);
        self.observe_cursor(subject, self.inner.find_each(find))
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let first = find.finds.first();
        let subject = first.map_or(Subject::new("find"), |find| {
            Subject::of_read("find", &find.collection, &find.options)
        });
        self.observe_cursor(subject, self.inner.find_several(find))
    }

    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>> {
        let subject = Subject::of_read("count", &count.collection, &count.options);
        self.observe(subject, self.inner.count(count), none)
    }

    fn distinct(&self, distinct: DistinctOperation) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        let subject = Subject::of_read("distinct", &distinct.collection, &distinct.options);
        self.observe(subject, self.inner.distinct(distinct), length)
    }

    fn insert(&self, insert: InsertOperation) -> BoxFuture<'_, Result<()>> {
        let subject = Subject::of_write("insert", &insert.collection, insert.origin);
        self.observe(subject, self.inner.insert(insert), none)
    }

    fn update(&self, update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>> {
        let subject = Subject::of_write("update", &update.collection, update.origin);
        let run = self.inner.update(update);
        self.observe(subject, run, |result| Some(result.matched))
    }

    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>> {
        let subject = Subject::of_write("delete", &delete.collection, delete.origin);
        let run = self.inner.delete(delete);
        self.observe(subject, run, |result| Some(result.deleted))
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        let subject = Subject::of_write("findAndModify", &modify.collection, modify.origin);
        let run = self.inner.find_and_modify(modify);
        self.observe(subject, run, |document| Some(u64::from(document.is_some())))
    }

    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        let first = bulk.writes.first();
        let subject = first.map_or(Subject::new("bulkWrite"), |item| {
            Subject::of_write("bulkWrite", item.write.collection(), bulk.origin)
        });
        let run = self.inner.bulk_write(bulk);
        self.observe(subject, run, |result| {
            Some(result.inserted + result.matched + result.deleted)
        })
    }
}

impl Backend for Observed<dyn Backend> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn system_name(&self) -> &'static str {
        self.settings.system
    }

    fn client_reads(&self) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(self.wrap(self.inner.client_reads()?)))
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.observe(
            Subject::new("listCollections"),
            self.inner.list_collections(),
            none,
        )
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.observe(
            Subject::of("create", name.to_owned()),
            self.inner.create_collection(name),
            none,
        )
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.observe(
            Subject::of("drop", name.to_owned()),
            self.inner.drop_collection(name),
            none,
        )
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        let run = self.inner.list_indexes(collection);
        self.observe(
            Subject::of("listIndexes", collection.to_owned()),
            run,
            length,
        )
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        let run = self.inner.create_indexes(collection, indexes);
        self.observe(
            Subject::of("createIndexes", collection.to_owned()),
            run,
            none,
        )
    }

    fn set_expiry<'a>(
        &'a self,
        collection: &'a str,
        index: &'a str,
        after: Duration,
    ) -> BoxFuture<'a, Result<()>> {
        let run = self.inner.set_expiry(collection, index, after);
        self.observe(Subject::of("collMod", collection.to_owned()), run, none)
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let run = self.inner.drop_index(collection, name);
        self.observe(Subject::of("dropIndexes", collection.to_owned()), run, none)
    }

    fn shard_key_of<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<ShardKey>>> {
        self.inner.shard_key_of(collection)
    }

    fn shard_collection<'a>(
        &'a self,
        collection: &'a str,
        key: ShardKey,
    ) -> BoxFuture<'a, Result<()>> {
        let run = self.inner.shard_collection(collection, key);
        self.observe(
            Subject::of("shardCollection", collection.to_owned()),
            run,
            none,
        )
    }

    fn list_definitions(&self) -> BoxFuture<'_, Result<Vec<CollectionDefinition>>> {
        self.inner.list_definitions()
    }

    fn ensure_definable(&self, definition: &CollectionDefinition) -> Result<()> {
        self.inner.ensure_definable(definition)
    }

    fn create_defined(&self, definition: CollectionDefinition) -> BoxFuture<'_, Result<()>> {
        self.inner.create_defined(definition)
    }

    fn backup<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<()>> {
        self.inner.backup(path)
    }

    fn compact(&self) -> BoxFuture<'_, Result<CompactionReport>> {
        self.inner.compact()
    }

    #[cfg(feature = "serve")]
    fn engine_database(&self) -> Option<odm_engine::Database> {
        self.inner.engine_database()
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.close()
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn BackendTransaction>>> {
        Box::pin(async move {
            let transaction: Arc<dyn BackendTransaction> =
                Arc::new(self.wrap(self.inner.begin().await?));
            Ok(transaction)
        })
    }

    fn watch(&self, watch: WatchOperation) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        // The wait for events is no slow operation, so the batches of the stream are not observed.
        let subject = Subject {
            collection: watch.collection.clone(),
            ..Subject::new("watch")
        };
        self.observe(subject, self.inner.watch(watch), none)
    }
}

impl BackendTransaction for Observed<dyn BackendTransaction> {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        self.observe(Subject::new("commitTransaction"), self.inner.commit(), none)
    }

    fn commit_low_priority(&self) -> BoxFuture<'_, Result<()>> {
        self.observe(
            Subject::new("commitTransaction"),
            self.inner.commit_low_priority(),
            none,
        )
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        self.inner.abort()
    }
}
