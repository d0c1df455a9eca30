//! The adapter of the embedded engine.
//!
//! The engine's calls block: a write until the data is on disk, a read for the duration of its scan. A call starts on the calling
//! thread, because a short call costs less than a thread switch. A call that takes longer, that waits for another call or that
//! commits to a slow disk runs on one of Tokio's threads for blocking work.

mod blocking;
mod bulk_write;
mod convert;
mod cursor;
mod definition;
mod error;
mod insert;
mod transaction;
mod watch;

use std::{
    fmt,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bson::{RawBson, RawDocumentBuf, raw::cstr};
use odm_engine::{Database, Modification, Session};

use blocking::Call;
use cursor::{EngineBatch, EngineCursor};
use transaction::OpenTransaction;
use watch::EngineChangeCursor;

use super::{
    Backend, BackendTransaction, BoxFuture, Capabilities, ChangeCursor, CompactionReport, Cursor,
    Durability, Executor,
    operation::{
        AggregateOperation, BulkWrite, BulkWriteResult, Collection, CollectionDefinition,
        CountOperation, DeleteOperation, DeleteResult, DistinctOperation, Explain, FindAndModify,
        FindEach, FindOperation, FindSeveral, Index, InsertOperation, UpdateOperation,
        UpdateResult, WatchOperation,
    },
    read_to_end,
};
use crate::{Error, ErrorKind, Result};

/// A database in a file or in the memory of this process.
///
/// Any error in a transaction ends the transaction. A cursor shows the state of the database at the time when the cursor was
/// opened, and outlives its transaction.
///
/// The type parameter is the database or a transaction.
#[derive(Debug)]
pub struct Engine<T = Database> {
    target: Arc<T>,
}

impl<T> Clone for Engine<T> {
    fn clone(&self) -> Self {
        Self {
            target: Arc::clone(&self.target),
        }
    }
}

impl Engine {
    /// Opens the database in a file. Creates the file if the file is missing.
    ///
    /// # Errors
    ///
    /// [`InUse`](ErrorKind::InUse) if the file stays open in this or another process for a second.
    /// [`Damaged`](ErrorKind::Damaged) if the file is not a database of this engine, or has a newer format. [`Io`](ErrorKind::Io)
    /// if the file system fails.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        if path.as_os_str().is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidUrl,
                "the URL has no file path: use `odm:path/to/file`",
            ));
        }
        let database = blocking::run_to_end(move || open_when_closed(&path));
        Ok(Self {
            target: Arc::new(database.await?),
        })
    }

    /// Opens the database in a file only for reads. The file stays unchanged, byte for byte. Every write fails.
    ///
    /// Several processes can open a file for reads at once. A process that writes excludes all of them.
    ///
    /// ```
    /// use odm::backend::{Backend, Engine};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("odm-read-only-{}.odm", std::process::id()));
    /// # Engine::open(&path).await?.create_collection("parts").await?;
    /// let engine = Engine::open_read_only(&path).await?;
    /// assert_eq!(engine.list_collections().await?, ["parts"]);
    /// assert!(engine.drop_collection("parts").await.is_err());
    /// # drop(engine);
    /// # let _ = std::fs::remove_file(path);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open). [`Io`](ErrorKind::Io) if the file does not exist.
    pub async fn open_read_only(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let database = blocking::run_to_end(move || {
            let opened = Database::open_read_only(&path);
            opened.map_err(|failure| error::from_open_failure(failure, &path))
        });
        Ok(Self {
            target: Arc::new(database.await?),
        })
    }

    /// Creates a database in memory, which lasts as long as its handles.
    #[must_use]
    pub fn memory() -> Self {
        Self {
            target: Arc::new(Database::memory()),
        }
    }
}

impl Engine {
    /// Returns the database of the engine, for example to serve it by the crate `odm-wire`. Writes to this handle bypass all
    /// maintenance.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.target
    }

    /// Returns a handle to the same database with this durability of its writes.
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Self {
        let durability = match durability {
            Durability::Full => odm_engine::Durability::Full,
            Durability::Relaxed => odm_engine::Durability::Relaxed,
        };
        Self {
            target: Arc::new(self.target.with_durability(durability)),
        }
    }
}

/// Opens the database of a URL, from the text after `odm:`.
pub(super) async fn open_url(path_and_options: &str) -> Result<Engine> {
    let Some((path, options)) = path_and_options.split_once('?') else {
        return Engine::open(path_and_options).await;
    };
    let durability = match options {
        "durability=full" => Durability::Full,
        "durability=relaxed" => Durability::Relaxed,
        other => {
            let message = format!(
                "unsupported option `{other}` of an `odm:` URL: use `?durability=full` or `?durability=relaxed`"
            );
            return Err(Error::new(ErrorKind::InvalidUrl, message));
        }
    };
    Ok(Engine::open(path).await?.with_durability(durability))
}

/// A database or a transaction, on which the operations run.
pub trait EngineTarget: Deref<Target = Session> + fmt::Debug + Send + Sync + 'static {}

impl<T: Deref<Target = Session> + fmt::Debug + Send + Sync + 'static> EngineTarget for T {}

impl<T: EngineTarget> Engine<T> {
    /// Reads the first documents of a query.
    fn find_first_batch(
        &self,
        find: FindOperation,
    ) -> impl Future<Output = Result<EngineBatch>> + Send + use<T> {
        let (collection, max_time) = (find.collection.clone(), find.options.max_time);
        let find = convert::find_to_engine(find);
        let (target, name) = (Arc::clone(&self.target), collection.clone());
        let input_bytes = find.filter.as_bytes().len();
        let call = Call::new(move || EngineBatch::read_first(target.find(&name, &find)?));
        let call = call.with_input(input_bytes);
        async move {
            let to_error = |failure| error::in_collection(failure, &collection);
            let first = call.run_cancellable(max_time, to_error).await?;
            first.complete(max_time).await
        }
    }

    /// Runs a read of a collection, within a time limit. Dropping the future cancels the read.
    fn run_read<R: Send + 'static>(
        &self,
        collection: Collection,
        max_time: Option<Duration>,
        input_bytes: usize,
        run: impl Fn(&T, &str) -> odm_engine::Result<R> + Send + 'static,
    ) -> BoxFuture<'_, Result<R>> {
        let (target, name) = (Arc::clone(&self.target), collection.clone());
        let call = Call::new(move || run(&target, &name)).with_input(input_bytes);
        Box::pin(call.run_cancellable(max_time, move |failure| {
            error::in_collection(failure, &collection)
        }))
    }

    /// Runs an operation on a collection.
    fn run_in_collection<R: Send + 'static>(
        &self,
        collection: Collection,
        input_bytes: usize,
        run: impl Fn(&T, &str) -> odm_engine::Result<R> + Send + 'static,
    ) -> BoxFuture<'_, Result<R>> {
        let (target, name) = (Arc::clone(&self.target), collection.clone());
        let call = Call::new(move || run(&target, &name)).with_input(input_bytes);
        Box::pin(call.run(move |failure| error::in_collection(failure, &collection)))
    }
}

impl<T: EngineTarget> Executor for Engine<T> {
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let max_time = find.options.max_time;
        let first = self.find_first_batch(find);
        Box::pin(async move { Ok(EngineCursor::new_boxed(first.await?, max_time)) })
    }

    fn find_all(&self, find: FindOperation) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        let max_time = find.options.max_time;
        let first = self.find_first_batch(find);
        Box::pin(async move {
            match first.await?.into_all() {
                Ok(all) => Ok(all),
                Err(first) => read_to_end(EngineCursor::new_boxed(first, max_time)).await,
            }
        })
    }

    fn explain(&self, find: FindOperation) -> BoxFuture<'_, Result<Explain>> {
        let (collection, max_time) = (find.collection.clone(), find.options.max_time);
        let limit = find.limit;
        let find = convert::find_to_engine(find);
        let input_bytes = find.filter.as_bytes().len();
        self.run_read(collection, max_time, input_bytes, move |target, name| {
            Ok(convert::explain_from_engine(
                target.explain(name, &find)?,
                limit,
            ))
        })
    }

    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (collection, max_time) = (aggregate.collection.clone(), aggregate.options.max_time);
        let checked = aggregate.ensure_reads();
        let aggregate = convert::aggregate_to_engine(aggregate);
        let input_bytes = total_bytes(&aggregate.pipeline);
        let documents = self.run_read(collection, max_time, input_bytes, move |target, name| {
            EngineBatch::read_first(target.aggregate(name, &aggregate)?)
        });
        Box::pin(async move {
            checked?;
            let first = documents.await?.complete(max_time).await?;
            Ok(EngineCursor::new_boxed(first, max_time))
        })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (collection, max_time) = (find.collection.clone(), find.options.max_time);
        let checked = find.options.ensure_no_hint("a query by several keys");
        let find = convert::find_each_to_engine(find);
        let (target, name) = (Arc::clone(&self.target), collection.clone());
        let key_count = find.keys.len();
        let call = Call::new(move || target.find_each(&name, &find)).with_queries(key_count);
        Box::pin(async move {
            checked?;
            let documents = call.run_cancellable(max_time, |failure| {
                error::in_collection(failure, &collection)
            });
            let documents = EngineBatch::from_numbered_groups(cstr!("key"), documents.await?);
            Ok(EngineCursor::new_boxed(documents, None))
        })
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let target = Arc::clone(&self.target);
        let max_time = find.max_time();
        let finds = find.finds.into_iter();
        let finds = finds.map(|find| (find.collection.to_string(), convert::find_to_engine(find)));
        let finds: Vec<_> = finds.collect();
        let input_bytes = finds.iter().map(|(_, find)| find.filter.as_bytes().len());
        let input_bytes = input_bytes.sum();
        let query_count = finds.len();
        let call = Call::new(move || target.find_several(&finds));
        let call = call.with_input(input_bytes).with_queries(query_count);
        Box::pin(async move {
            let documents = call.run_cancellable(max_time, error::from_engine).await?;
            let documents = EngineBatch::from_numbered_groups(cstr!("query"), documents);
            Ok(EngineCursor::new_boxed(documents, None))
        })
    }

    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>> {
        let (collection, max_time) = (count.collection.clone(), count.options.max_time);
        let count = convert::count_to_engine(count);
        let input_bytes = count.filter.as_bytes().len();
        self.run_read(collection, max_time, input_bytes, move |target, name| {
            target.count(name, &count)
        })
    }

    fn distinct(&self, distinct: DistinctOperation) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        let DistinctOperation {
            collection,
            path,
            filter,
            options,
        } = distinct;
        let checked = options.ensure_no_hint("`distinct`");
        let input_bytes = filter.as_bytes().len();
        let values = self.run_read(
            collection,
            options.max_time,
            input_bytes,
            move |target, name| target.distinct(name, &path, &filter),
        );
        Box::pin(async move {
            checked?;
            values.await
        })
    }

    fn insert(&self, insert: InsertOperation) -> BoxFuture<'_, Result<()>> {
        Box::pin(insert::insert_documents(Arc::clone(&self.target), insert))
    }

    fn update(&self, update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>> {
        let collection = update.collection.clone();
        let converted = convert::update_to_engine(update);
        Box::pin(async {
            let update = converted?;
            let input_bytes = update_bytes(&update);
            let updated = self.run_in_collection(collection, input_bytes, move |target, name| {
                convert::update_result_from_engine(target.update(name, &update)?)
            });
            updated.await
        })
    }

    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>> {
        let collection = delete.collection.clone();
        let delete = convert::delete_to_engine(delete);
        let input_bytes = delete.filter.as_bytes().len();
        self.run_in_collection(collection, input_bytes, move |target, name| {
            let deleted = target.delete(name, &delete);
            deleted.map(convert::delete_result_from_engine)
        })
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        let collection = modify.collection.clone();
        let converted = convert::find_and_modify_to_engine(modify);
        Box::pin(async {
            let modify = converted?;
            let input_bytes = modify.filter.as_bytes().len() + modification_bytes(&modify);
            let modified = self.run_in_collection(collection, input_bytes, move |target, name| {
                target.find_and_modify(name, &modify)
            });
            Ok(modified.await?.document)
        })
    }

    /// Executes the writes in one commit: the executed writes become durable together.
    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        Box::pin(bulk_write::bulk_write(Arc::clone(&self.target), bulk))
    }
}

impl Backend for Engine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true)
            .with_change_streams(true)
            .with_serial_writes(true)
    }

    fn with_durability(&self, durability: Durability) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Self::with_durability(self, durability)))
    }

    fn system_name(&self) -> &'static str {
        "odm"
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        let database = Arc::clone(&self.target);
        Box::pin(Call::new(move || database.list_collections()).run(error::from_engine))
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run_in_collection(name.to_owned().into(), 0, |database, name| {
            match database.create_collection(name) {
                Err(failure) if failure.code() == Some(error::NAMESPACE_EXISTS_CODE) => Ok(()),
                created => created,
            }
        })
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run_in_collection(name.to_owned().into(), 0, |database, name| {
            database.drop_collection(name)
        })
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        self.run_in_collection(collection.to_owned().into(), 0, |database, collection| {
            let indexes = database.list_indexes(collection)?.into_iter();
            let indexes = indexes.filter(|index| index.name != "_id_");
            Ok(indexes.map(convert::index_from_engine).collect())
        })
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if indexes.is_empty() {
                return Ok(());
            }
            let indexes = indexes.into_iter().map(convert::index_to_engine);
            let indexes = indexes.collect::<Result<Vec<_>>>()?;
            let created = self.run_in_collection(
                collection.to_owned().into(),
                0,
                move |database, collection| database.create_indexes(collection, &indexes),
            );
            created.await
        })
    }

    fn set_expiry<'a>(
        &'a self,
        collection: &'a str,
        index: &'a str,
        after: Duration,
    ) -> BoxFuture<'a, Result<()>> {
        let index = index.to_owned();
        self.run_in_collection(
            collection.to_owned().into(),
            0,
            move |database, collection| database.set_index_expiry(collection, &index, after),
        )
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let name = name.to_owned();
        self.run_in_collection(
            collection.to_owned().into(),
            0,
            move |database, collection| database.drop_index(collection, &name),
        )
    }

    fn list_definitions(&self) -> BoxFuture<'_, Result<Vec<CollectionDefinition>>> {
        let database = Arc::clone(&self.target);
        Box::pin(Call::new(move || definition::list(&database)).run(error::from_engine))
    }

    fn ensure_definable(&self, definition: &CollectionDefinition) -> Result<()> {
        definition::supported_indexes(definition).map(|_| ())
    }

    fn create_defined(&self, definition: CollectionDefinition) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let indexes = definition::supported_indexes(&definition)?;
            self.create_collection(&definition.name).await?;
            let created =
                self.run_in_collection(definition.name.into(), 0, move |database, collection| {
                    database.create_indexes(collection, &indexes)
                });
            created.await
        })
    }

    fn backup<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<()>> {
        let (database, path) = (Arc::clone(&self.target), path.to_owned());
        Box::pin(async move {
            let copied = blocking::run_interruptible(None, move || database.backup(path));
            copied.await?.map_err(error::from_engine)
        })
    }

    fn compact(&self) -> BoxFuture<'_, Result<CompactionReport>> {
        let database = Arc::clone(&self.target);
        Box::pin(async move {
            let compacted = blocking::run_interruptible(None, move || database.compact());
            let report = compacted.await?.map_err(error::from_engine)?;
            Ok(CompactionReport {
                bytes_before: report.bytes_before,
                bytes_after: report.bytes_after,
            })
        })
    }

    #[cfg(feature = "serve")]
    fn engine_database(&self) -> Option<Database> {
        Some(self.database().clone())
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        let database = Arc::clone(&self.target);
        Box::pin(blocking::run_to_end(move || {
            database.close();
            Ok(())
        }))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn BackendTransaction>>> {
        Box::pin(async move {
            let database = Arc::clone(&self.target);
            let begun = Call::new(move || database.begin()).run(error::from_engine);
            Ok(OpenTransaction::new_shared(begun.await?))
        })
    }

    /// Opens a change stream. The first watch of a database turns its change log on.
    ///
    /// From then on the log adds a cost to every write: see [`odm_engine::Database::set_change_log`].
    fn watch(&self, watch: WatchOperation) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        let database = Arc::clone(&self.target);
        Box::pin(blocking::run_to_end(move || {
            let changes = database.watch(&convert::watch_to_engine(watch));
            Ok(EngineChangeCursor::new_boxed(
                changes.map_err(error::from_engine)?,
            ))
        }))
    }
}

/// The time to wait for another handle to close the file. A recently dropped database may still run its last operation.
const FILE_IN_USE_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens a file, and retries while another handle closes the file.
fn open_when_closed(path: &Path) -> Result<Database> {
    let started = Instant::now();
    loop {
        match Database::open(path) {
            Err(failure) if failure.is_in_use() && started.elapsed() < FILE_IN_USE_TIMEOUT => {
                thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.map_err(|failure| error::from_open_failure(failure, path)),
        }
    }
}

/// Returns the size of the filter and of the change.
fn update_bytes(update: &odm_engine::Update) -> usize {
    let pipeline = update.pipeline.as_deref().unwrap_or_default();
    update.filter.as_bytes().len() + update.update.as_bytes().len() + total_bytes(pipeline)
}

fn modification_bytes(modify: &odm_engine::FindAndModify) -> usize {
    match &modify.modification {
        Modification::Update {
            update, pipeline, ..
        } => update.as_bytes().len() + total_bytes(pipeline.as_deref().unwrap_or_default()),
        _ => 0,
    }
}

fn total_bytes(documents: &[RawDocumentBuf]) -> usize {
    let sizes = documents.iter().map(|document| document.as_bytes().len());
    sizes.sum()
}
