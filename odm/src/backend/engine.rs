//! The embedded engine.
//!
//! Its calls block: a write until it is on disk, a read as long as it scans. So they run on Tokio's threads for blocking
//! work; only the read of one document by its id, which costs less than the way there, runs where it is asked for.

mod bulk_write;
mod convert;
mod cursor;
mod error;
mod insert;
mod transaction;
mod watch;
mod work;

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
    Aggregate, BulkWrite, BulkWritten, Collection, Count, Delete, Deleted, Distinct, Explain, Find,
    FindAndModify, FindEach, FindSeveral, Index, Insert, Update, Updated, Watch,
};
use super::{Backend, BoxFuture, Capabilities, ChangeCursor, Cursor, Executor, Transaction};
use crate::{Error, ErrorKind, Result};
use cursor::{EngineCursor, Fetched};
use transaction::Open;
use watch::EngineChanges;

/// A database in a file of this process or in its memory.
///
/// Any error in a transaction ends the transaction. A cursor shows the state of the database when it was opened, and in
/// a transaction outlives that.
///
/// The type parameter is the database itself, or one of its transactions.
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
    /// Opens the database in a file, which is created if there is none.
    ///
    /// # Errors
    ///
    /// [`InUse`](ErrorKind::InUse) if this or another process has it open and does not close it within a second, [`Damaged`](ErrorKind::Damaged) if it is not a database of
    /// this engine or of a newer version, [`Io`](ErrorKind::Io) if the file system fails.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        if path.as_os_str().is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidUrl,
                "the URL names no file: add one, as in `odm:path/to/file`",
            ));
        }
        let database = work::blocking(move || open_soon(&path));
        Ok(Self {
            target: Arc::new(database.await?),
        })
    }

    /// A new database in memory, which lasts as long as its handles.
    #[must_use]
    pub fn memory() -> Self {
        Self {
            target: Arc::new(Database::memory()),
        }
    }
}

/// The database or a transaction: what the operations run on.
pub trait Target: Deref<Target = Session> + fmt::Debug + Send + Sync + 'static {}

impl<T: Deref<Target = Session> + fmt::Debug + Send + Sync + 'static> Target for T {}

impl<T: Target> Engine<T> {
    /// Runs a read of a collection where it may block, for no longer than its time limit. It ends soon when the
    /// future is dropped.
    fn read<R: Send + 'static>(
        &self,
        collection: Collection,
        max_time: Option<Duration>,
        run: impl FnOnce(&T, &str) -> odm_engine::Result<R> + Send + 'static,
    ) -> BoxFuture<'_, Result<R>> {
        let target = Arc::clone(&self.target);
        Box::pin(work::read(max_time, move || {
            run(&target, &collection).map_err(|failure| error::in_collection(failure, &collection))
        }))
    }

    /// Runs an operation on a collection where it may block.
    fn on<R: Send + 'static>(
        &self,
        collection: Collection,
        run: impl FnOnce(&T, &str) -> odm_engine::Result<R> + Send + 'static,
    ) -> BoxFuture<'_, Result<R>> {
        let target = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
            run(&target, &collection).map_err(|failure| error::in_collection(failure, &collection))
        }))
    }
}

impl<T: Target> Executor for Engine<T> {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let target = Arc::clone(&self.target);
        Box::pin(async move {
            let Find { collection, .. } = &find;
            let collection = collection.clone();
            let by_id = is_by_id(&find.filter);
            let max_time = find.max_time;
            let run = move || {
                let found = target.find(&collection, &convert::find(find));
                let found = found.and_then(Fetched::first);
                found.map_err(|failure| error::in_collection(failure, &collection))
            };
            let first = if by_id {
                run()?
            } else {
                work::read(max_time, run).await?
            };
            Ok(EngineCursor::boxed(first, max_time))
        })
    }

    fn explain(&self, find: Find) -> BoxFuture<'_, Result<Explain>> {
        let max_time = find.max_time;
        self.read(
            find.collection.clone(),
            max_time,
            move |target, collection| {
                let limit = find.limit;
                let explained = target.explain(collection, &convert::find(find))?;
                Ok(convert::explained(explained, limit))
            },
        )
    }

    fn aggregate(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (collection, max_time) = (aggregate.collection.clone(), aggregate.max_time);
        let found = self.read(collection, max_time, move |target, collection| {
            let found = target.aggregate(collection, &convert::aggregate(aggregate))?;
            Fetched::first(found)
        });
        Box::pin(async move { Ok(EngineCursor::boxed(found.await?, max_time)) })
    }

    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (collection, max_time) = (find.collection.clone(), find.max_time);
        let found = self.read(collection, max_time, move |target, collection| {
            target.find_each(collection, &convert::find_each(find))
        });
        Box::pin(async {
            let found = Fetched::marked(cstr!("key"), found.await?);
            Ok(EngineCursor::boxed(found, None))
        })
    }

    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let target = Arc::clone(&self.target);
        Box::pin(async move {
            let max_time = find.max_time();
            let run = move || {
                let finds = find.finds.into_iter();
                let finds = finds.map(|find| (find.collection.to_string(), convert::find(find)));
                let finds: Vec<_> = finds.collect();
                target.find_several(&finds).map_err(error::from_engine)
            };
            let found = work::read(max_time, run).await?;
            let found = Fetched::marked(cstr!("query"), found);
            Ok(EngineCursor::boxed(found, None))
        })
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        let (collection, max_time) = (count.collection.clone(), count.max_time);
        self.read(collection, max_time, move |target, collection| {
            target.count(collection, &convert::count(count))
        })
    }

    fn distinct(&self, distinct: Distinct) -> BoxFuture<'_, Result<Vec<RawBson>>> {
        let Distinct {
            collection,
            path,
            filter,
            max_time,
        } = distinct;
        self.read(collection, max_time, move |target, collection| {
            target.distinct(collection, &path, &filter)
        })
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        let target = Arc::clone(&self.target);
        Box::pin(work::blocking(move || insert::insert(&target, insert)))
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        let collection = update.collection.clone();
        let converted = convert::update(update);
        Box::pin(async {
            let converted = converted?;
            let updated = self.on(collection, move |target, collection| {
                convert::updated(target.update(collection, &converted)?)
            });
            updated.await
        })
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        self.on(delete.collection.clone(), move |target, collection| {
            let deleted = target.delete(collection, &convert::delete(delete));
            deleted.map(convert::deleted)
        })
    }

    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>> {
        let collection = modify.collection.clone();
        let converted = convert::find_and_modify(modify);
        Box::pin(async {
            let converted = converted?;
            let modified = self.on(collection, move |target, collection| {
                target.find_and_modify(collection, &converted)
            });
            Ok(modified.await?.document)
        })
    }

    /// All in one commit: either all that were carried out are durable, or none.
    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWritten>> {
        let target = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
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

    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        let database = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
            database.list_collections().map_err(error::from_engine)
        }))
    }

    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.on(name.to_owned().into(), |database, name| {
            match database.create_collection(name) {
                Err(failure) if failure.code() == Some(error::NAMESPACE_EXISTS) => Ok(()),
                created => created,
            }
        })
    }

    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>> {
        self.on(name.to_owned().into(), |database, name| {
            database.drop_collection(name)
        })
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        self.on(collection.to_owned().into(), |database, collection| {
            let listed = database.list_indexes(collection)?.into_iter();
            let listed = listed.filter(|index| index.name != "_id_");
            Ok(listed.map(convert::index_from_engine).collect())
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
            let created = self.on(collection.to_owned().into(), move |database, collection| {
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
        self.on(collection.to_owned().into(), move |database, collection| {
            database.set_index_expiry(collection, &index, after)
        })
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let name = name.to_owned();
        self.on(collection.to_owned().into(), move |database, collection| {
            database.drop_index(collection, &name)
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        let database = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
            database.close();
            Ok(())
        }))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn Transaction>>> {
        Box::pin(async move {
            let begun = self.target.begin().map_err(error::from_engine)?;
            Ok(Open::shared(begun))
        })
    }

    /// The first watch of a database makes it keep a log, from then on, which costs every later write something; see
    /// [`odm_engine::Database::set_change_log`].
    fn watch(&self, watch: Watch) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>> {
        let database = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
            let changes = database.watch(&convert::watch(watch));
            Ok(EngineChanges::boxed(changes.map_err(error::from_engine)?))
        }))
    }
}

/// How long a file that is in use may take to be closed: a database that was just dropped may be at its last operation.
const CLOSING: Duration = Duration::from_secs(1);

/// Opens a file, which may be about to be closed.
fn open_soon(path: &Path) -> Result<Database> {
    let begun = Instant::now();
    loop {
        match Database::open(path) {
            Err(failure) if failure.is_in_use() && begun.elapsed() < CLOSING => {
                thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.map_err(|failure| error::opening(failure, path)),
        }
    }
}

/// Whether the filter is the equality of the id with one value, and nothing else.
fn is_by_id(filter: &RawDocument) -> bool {
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
