//! The embedded engine.
//!
//! The engine's calls block: they wait for the disk, or look through many documents. They run on tokio's threads for
//! blocking work, so that no worker waits; only the read of one document by its `_id` stays where it is, because the way
//! to another thread costs more than the read.

mod convert;

use std::{fmt, mem, path::Path, sync::Arc};

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use odm_engine as engine;

use super::{
    Backend, BoxFuture, Capabilities, Cursor, Executor, Transaction,
    operation::{Count, Delete, Deleted, Find, FindEach, Index, Insert, Update, Updated},
};
use crate::{Error, ErrorKind, Result};

/// The embedded engine, on a file or in memory; as a type parameter, the database or one of its transactions.
#[derive(Clone)]
pub struct Engine<T = engine::Database>(T);

impl Engine {
    /// Opens the file, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// [`InUse`](ErrorKind::InUse) if a process has it open, [`Damaged`](ErrorKind::Damaged) if it is not a whole file of
    /// this engine, [`Io`](ErrorKind::Io).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        blocking(move || engine::Database::open(path))
            .await
            .map(Self)
    }

    /// A database in memory, gone when the last handle is dropped.
    #[must_use]
    pub fn memory() -> Self {
        Self(engine::Database::memory())
    }

    /// The engine itself.
    #[must_use]
    pub fn database(&self) -> &engine::Database {
        &self.0
    }
}

impl<T> fmt::Debug for Engine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// A database of the engine, or a transaction: what has the commands.
pub trait Commands: Clone + Send + Sync + 'static {
    fn find(&self, collection: &str, find: &engine::Find) -> engine::Result<engine::Cursor>;
    fn find_each(
        &self,
        collection: &str,
        each: &engine::FindEach,
    ) -> engine::Result<Vec<Vec<RawDocumentBuf>>>;
    fn count(
        &self,
        collection: &str,
        filter: &RawDocument,
        limit: Option<u64>,
    ) -> engine::Result<u64>;
    fn insert(
        &self,
        collection: &str,
        documents: Vec<RawDocumentBuf>,
    ) -> engine::Result<engine::InsertReport>;
    fn update(
        &self,
        collection: &str,
        update: &engine::Update,
    ) -> engine::Result<engine::UpdateReport>;
    fn delete(
        &self,
        collection: &str,
        delete: &engine::Delete,
    ) -> engine::Result<engine::DeleteReport>;
    /// Called after a command that failed.
    fn failed(&self) {}
}

macro_rules! commands {
    ($target:ty, $inner:ty $(, $failed:item)?) => {
        impl Commands for $target {
            fn find(&self, collection: &str, find: &engine::Find) -> engine::Result<engine::Cursor> {
                <$inner>::find(self, collection, find)
            }
            fn find_each(
                &self,
                collection: &str,
                each: &engine::FindEach,
            ) -> engine::Result<Vec<Vec<RawDocumentBuf>>> {
                <$inner>::find_each(self, collection, each)
            }
            fn count(
                &self,
                collection: &str,
                filter: &RawDocument,
                limit: Option<u64>,
            ) -> engine::Result<u64> {
                <$inner>::count(self, collection, filter, limit)
            }
            fn insert(
                &self,
                collection: &str,
                documents: Vec<RawDocumentBuf>,
            ) -> engine::Result<engine::InsertReport> {
                <$inner>::insert(self, collection, documents)
            }
            fn update(
                &self,
                collection: &str,
                update: &engine::Update,
            ) -> engine::Result<engine::UpdateReport> {
                <$inner>::update(self, collection, update)
            }
            fn delete(
                &self,
                collection: &str,
                delete: &engine::Delete,
            ) -> engine::Result<engine::DeleteReport> {
                <$inner>::delete(self, collection, delete)
            }
            $($failed)?
        }
    };
}
commands!(engine::Database, engine::Database);
commands!(
    Arc<engine::Transaction>,
    engine::Transaction,
    /// An error ends the transaction, as it does on MongoDB.
    fn failed(&self) {
        // Aborting fails only when it is over already.
        let _ = self.abort();
    }
);

impl<T: Commands> Engine<T> {
    fn run<R: Send + 'static>(
        &self,
        command: impl FnOnce(&T) -> engine::Result<R> + Send + 'static,
    ) -> BoxFuture<'static, Result<R>> {
        let target = self.0.clone();
        Box::pin(blocking(move || {
            command(&target).inspect_err(|_| target.failed())
        }))
    }
}

impl<T: Commands> Executor for Engine<T> {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let by_id = is_by_id(&find.filter);
        let (collection, find) = convert::find(find);
        let open = move |target: &T| {
            let mut cursor = target.find(&collection, &find)?;
            let first = cursor.next_batch(BATCH)?.unwrap_or_default();
            let rest = (first.len() == BATCH).then_some(cursor);
            Ok(Box::new(Batches { first, rest }) as Box<dyn Cursor>)
        };
        if by_id {
            let cursor = open(&self.0)
                .inspect_err(|_| self.0.failed())
                .map_err(convert::error);
            return Box::pin(async move { cursor });
        }
        self.run(open)
    }

    fn find_each(&self, each: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let (collection, each) = convert::find_each(each);
        self.run(move |target| {
            let groups = target.find_each(&collection, &each)?;
            let rows = (0_i32..)
                .zip(groups)
                .flat_map(|(key, group)| {
                    group
                        .into_iter()
                        .map(move |document| rawdoc! { "key": key, "document": document })
                })
                .collect();
            Ok(Box::new(Batches {
                first: rows,
                rest: None,
            }) as Box<dyn Cursor>)
        })
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        self.run(move |target| target.count(&count.collection, &count.filter, count.limit))
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        let ids = convert::ids(&insert.documents);
        let done = self.run(move |target| {
            let report = target.insert(&insert.collection, insert.documents)?;
            if report.failure.is_some() {
                target.failed();
            }
            Ok(report)
        });
        Box::pin(async move {
            let report = done.await?;
            match report.failure {
                None => Ok(()),
                Some(failure) => {
                    let error = convert::error(failure).with_inserted(report.inserted);
                    Err(match ids.into_iter().nth(report.inserted).flatten() {
                        Some(id) => error.with_id(id),
                        None => error,
                    })
                }
            }
        })
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        let (collection, update) = convert::update(update);
        let done = self.run(move |target| target.update(&collection, &update));
        Box::pin(async move {
            let report = done.await?;
            Ok(Updated {
                matched: report.matched,
                modified: report.modified,
            })
        })
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        let (collection, delete) = convert::delete(delete);
        let done = self.run(move |target| target.delete(&collection, &delete));
        Box::pin(async move {
            Ok(Deleted {
                deleted: done.await?.deleted,
            })
        })
    }
}

impl Backend for Engine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true)
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        let collection = collection.to_owned();
        let indexes = self.run(move |database| database.list_indexes(&collection));
        Box::pin(async move {
            Ok(indexes
                .await?
                .into_iter()
                .filter(|index| index.name != "_id_")
                .map(convert::index_from)
                .collect())
        })
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        let collection = collection.to_owned();
        let indexes: Vec<_> = indexes.into_iter().map(convert::index_to).collect();
        self.run(move |database| database.create_indexes(&collection, &indexes))
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let (collection, name) = (collection.to_owned(), name.to_owned());
        self.run(move |database| database.drop_index(&collection, &name))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn Transaction>>> {
        let begun = self.0.begin().map_err(convert::error);
        Box::pin(async move { Ok(Arc::new(Engine(Arc::new(begun?))) as Arc<dyn Transaction>) })
    }
}

impl Transaction for Engine<Arc<engine::Transaction>> {
    fn commit(&self) -> BoxFuture<'_, Result<()>> {
        self.run(|transaction| transaction.commit())
    }

    fn abort(&self) -> BoxFuture<'_, ()> {
        // Nothing to wait for: the writes were in memory. What is over already stays as it is.
        let _ = self.0.abort();
        Box::pin(async {})
    }
}

/// How many documents are read in one go: enough that the way between threads does not count.
const BATCH: usize = 1_000;

/// What a query found: the first documents, read with the query itself, and where to read on.
struct Batches {
    first: Vec<RawDocumentBuf>,
    rest: Option<engine::Cursor>,
}

impl Cursor for Batches {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move {
            if !self.first.is_empty() {
                return Ok(mem::take(&mut self.first));
            }
            let Some(mut cursor) = self.rest.take() else {
                return Ok(Vec::new());
            };
            // Dropped while it waits, this leaves the cursor at its end.
            let (cursor, batch) = blocking(move || Ok((cursor.next_batch(BATCH)?, cursor)))
                .await
                .map(|(batch, cursor)| (cursor, batch.unwrap_or_default()))?;
            self.rest = (batch.len() == BATCH).then_some(cursor);
            Ok(batch)
        })
    }
}

/// Whether a filter asks for one `_id` and nothing else.
fn is_by_id(filter: &RawDocument) -> bool {
    let mut fields = filter.iter().flatten();
    let Some((name, RawBsonRef::Document(operators))) = fields.next() else {
        return false;
    };
    let mut operators = operators.iter().flatten();
    name == "_id"
        && fields.next().is_none()
        && operators.next().is_some_and(|(name, _)| name == "$eq")
        && operators.next().is_none()
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> engine::Result<R> + Send + 'static,
) -> Result<R> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(convert::error),
        Err(error) => Err(
            Error::new(ErrorKind::Backend, "the engine ended without an answer").with_source(error),
        ),
    }
}
