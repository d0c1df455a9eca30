//! The adapter of the embedded engine.
//!
//! The engine's calls block: a write until the data is on disk, a read for the duration of its scan. So operations run on Tokio's
//! threads for blocking work. Only the lookup of a document by id runs on the calling thread: the lookup costs less than a thread
//! switch.

mod blocking;
mod bulk_write;
mod convert;
mod cursor;
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

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, raw::cstr};
use odm_engine::{Database, Session};

use super::operation::{
    AggregateOperation, BulkWrite, BulkWriteResult, Collection, CountOperation, DeleteOperation,
    DeleteResult, DistinctOperation, Explain, FindAndModify, FindEach, FindOperation, FindSeveral,
    Index, InsertOperation, UpdateOperation, UpdateResult, WatchOperation,
};
use super::{Backend, BackendTransaction, BoxFuture, Capabilities, ChangeCursor, Cursor, Executor};
use crate::{Error, ErrorKind, Result};
use cursor::{EngineBatch, EngineCursor};
use transaction::OpenTransaction;
use watch::EngineChangeCursor;

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

    /// Creates a database in memory, which lasts as long as its handles.
    #[must_use]
    pub fn memory() -> Self {
        Self {
            target: Arc::new(Database::memory()),
        }
    }
}

/// A database or a transaction, on which the operations run.
pub trait EngineTarget: Deref<Target = Session> + fmt::Debug + Send + Sync + 'static {}

impl<T: Deref<Target = Session> + fmt::Debug + Send + Sync + 'static> EngineTarget for T {}

impl<T: EngineTarget> Engine<T> {
    /// Runs a read of a collection on a thread for blocking work, within a time limit. Dropping the future cancels the read.
    fn run_read<R: Send + 'static>(
        &self,
        collection: Collection,
        max_time: Option<Duration>,
        run: impl FnOnce(&T, &str) -> odm_engine::Result<R> + Send + 'static,
    ) -> BoxFuture<'_, Result<R>> {
        let target = Arc::clone(&self.target);
        Box::pin(blocking::run_cancellable(max_time, move || {
            run(&target, &collection).map_err(|failure| error::in_collection(failure, &collection))
        }))
    }

    /// Runs an operation on a collection on a thread for blocking work.
    fn run_in_collection<R: Send + 'static>(
        &self,
        collection: Collection,
        run: impl FnOnce(&T, &str) -> odm_engine::Result<R> + Send + 'static,
    ) -> BoxFuture<'_, Result<R>> {
        let target = Arc::clone(&self.target);
        Box::pin(blocking::run_to_end(move || {
            run(&target, &collection).map_err(|failure| error::in_collection(failure, &collection))
        }))
    }
}

impl<T: EngineTarget> Executor for Engine<T> {
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let target = Arc::clone(&self.target);
        Box::pin(async move {
            let FindOperation { collection, .. } = &find;
            let collection = collection.clone();
            let by_id = is_id_lookup(&find.filter);
            let max_time = find.options.max_time;
            let run = move || {
                let documents = target.find(&collection, &convert::find_to_engine(find));
                let documents = documents.and_then(EngineBatch::read_first);
                documents.map_err(|failure| error::in_collection(failure, &collection))
            };
            let first = if by_id {
                run()?
            } else {
                blocking::run_cancellable(max_time, run).await?
            };
            Ok(EngineCursor::new_boxed(first, max_time))
        })
    }

    fn explain(&self, find: FindOperation) -> BoxFuture<'_, Result<Explain>> {
        let max_time = find.options.max_time;
        self.run_read(
            find.collection.clone(),
            max_time,
            move |target, collection| {
                let limit = find.limit;
                let explained = target.explain(collection, &convert::find_to_engine(find))?;
                Ok(convert::explain_from_engine(explained, limit))
            },
        )
    }

    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (collection, max_time) = (aggregate.collection.clone(), aggregate.options.max_time);
        let documents = self.run_read(collection, max_time, move |target, collection| {
            let documents =
                target.aggregate(collection, &convert::aggregate_to_engine(aggregate))?;
            EngineBatch::read_first(documents)
        });
        Box::pin(async move { Ok(EngineCursor::new_boxed(documents.await?, max_time)) })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (collection, max_time) = (find.collection.clone(), find.options.max_time);
        let checked = find.options.ensure_no_hint("a query by several keys");
        let documents = self.run_read(collection, max_time, move |target, collection| {
            target.find_each(collection, &convert::find_each_to_engine(find))
        });
        Box::pin(async {
            checked?;
            let documents = EngineBatch::from_numbered_groups(cstr!("key"), documents.await?);
            Ok(EngineCursor::new_boxed(documents, None))
        })
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let target = Arc::clone(&self.target);
        Box::pin(async move {
            let max_time = find.max_time();
            let run = move || {
                let finds = find.finds.into_iter();
                let finds =
                    finds.map(|find| (find.collection.to_string(), convert::find_to_engine(find)));
                let finds: Vec<_> = finds.collect();
                target.find_several(&finds).map_err(error::from_engine)
            };
            let documents = blocking::run_cancellable(max_time, run).await?;
            let documents = EngineBatch::from_numbered_groups(cstr!("query"), documents);
            Ok(EngineCursor::new_boxed(documents, None))
        })
    }

    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>> {
        let (collection, max_time) = (count.collection.clone(), count.options.max_time);
        self.run_read(collection, max_time, move |target, collection| {
            target.count(collection, &convert::count_to_engine(count))
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
        let values = self.run_read(collection, options.max_time, move |target, collection| {
            target.distinct(collection, &path, &filter)
        });
        Box::pin(async move {
            checked?;
            values.await
        })
    }

    fn insert(&self, insert: InsertOperation) -> BoxFuture<'_, Result<()>> {
        let target = Arc::clone(&self.target);
        Box::pin(blocking::run_to_end(move || {
            insert::insert_documents(&target, insert)
        }))
    }

    fn update(&self, update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>> {
        let collection = update.collection.clone();
        let converted = convert::update_to_engine(update);
        Box::pin(async {
            let converted = converted?;
            let updated = self.run_in_collection(collection, move |target, collection| {
                convert::update_result_from_engine(target.update(collection, &converted)?)
            });
            updated.await
        })
    }

    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>> {
        self.run_in_collection(delete.collection.clone(), move |target, collection| {
            let deleted = target.delete(collection, &convert::delete_to_engine(delete));
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
            let converted = converted?;
            let modified = self.run_in_collection(collection, move |target, collection| {
                target.find_and_modify(collection, &converted)
            });
            Ok(modified.await?.document)
        })
    }

    /// Executes the writes in one commit: the executed writes become durable together.
    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>> {
        let target = Arc::clone(&self.target);
        Box::pin(blocking::run_to_end(move || {
            bulk_write::bulk_write(&target, bulk)
        }))
    }
}

impl Backend for Engine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true)
            .with_change_streams(true)
            .with_serial_writes(true)
    }

    fn system_name(&self) -> &'static str {
        "odm"
    }

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        let database = Arc::clone(&self.target);
        Box::pin(blocking::run_to_end(move || {
            database.list_collections().map_err(error::from_engine)
        }))
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run_in_collection(name.to_owned().into(), |database, name| {
            match database.create_collection(name) {
                Err(failure) if failure.code() == Some(error::NAMESPACE_EXISTS_CODE) => Ok(()),
                created => created,
            }
        })
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.run_in_collection(name.to_owned().into(), |database, name| {
            database.drop_collection(name)
        })
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        self.run_in_collection(collection.to_owned().into(), |database, collection| {
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
            let created = self
                .run_in_collection(collection.to_owned().into(), move |database, collection| {
                    database.create_indexes(collection, &indexes)
                });
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
        self.run_in_collection(collection.to_owned().into(), move |database, collection| {
            database.set_index_expiry(collection, &index, after)
        })
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let name = name.to_owned();
        self.run_in_collection(collection.to_owned().into(), move |database, collection| {
            database.drop_index(collection, &name)
        })
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
            let transaction = self.target.begin().map_err(error::from_engine)?;
            Ok(OpenTransaction::new_shared(transaction))
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

/// Whether the filter is the equality of the id with one value, without further conditions.
fn is_id_lookup(filter: &RawDocument) -> bool {
    let mut fields = filter.iter();
    let by_id = match fields.next() {
        Some(Ok((name, RawBsonRef::Document(operators)))) => {
            let mut operators = operators.iter().flatten();
            name == "_id"
                && operators
                    .next()
                    .is_some_and(|(operator, _)| operator == "$eq")
                && operators.next().is_none()
        }
        Some(Ok((name, RawBsonRef::RegularExpression(_)))) if name == "_id" => false,
        Some(Ok((name, _))) => name == "_id",
        _ => false,
    };
    by_id && fields.next().is_none()
}
