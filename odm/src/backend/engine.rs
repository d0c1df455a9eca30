//! The embedded engine.
//!
//! Its calls block: a write until it is on disk, a read as long as it scans. So they run on Tokio's threads for blocking
//! work; only the read of one document by its id, which costs less than the way there, runs where it is asked for.
//! Without a Tokio runtime everything does.

mod commands;
mod convert;
mod cursor;
mod error;
mod transaction;
mod watch;
mod work;

use std::{path::PathBuf, sync::Arc};

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use odm_engine::{Database, InsertReport};

use super::operation::{
    Count, Delete, Deleted, Find, FindEach, Index, Insert, Update, Updated, Watch,
};
use super::{Backend, BoxFuture, Capabilities, ChangeCursor, Cursor, Executor, Transaction};
use crate::{Error, ErrorKind, Result};
use commands::Commands;
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
    /// [`InUse`](ErrorKind::InUse) if a process has it open, [`Damaged`](ErrorKind::Damaged) if it is not a database of
    /// this engine or of a newer version, [`Io`](ErrorKind::Io) if the file system fails.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        if path.as_os_str().is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidUrl,
                "the URL names no file: add one, as in `odm:path/to/file`",
            ));
        }
        let database = work::blocking(move || {
            Database::open(&path).map_err(|failure| error::opening(failure, &path))
        });
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

impl<T: Commands> Executor for Engine<T> {
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>> {
        let target = Arc::clone(&self.target);
        Box::pin(async move {
            let Find { collection, .. } = &find;
            let collection = collection.clone();
            let by_id = is_by_id(&find.filter);
            let run = move || {
                let found = target.find(&collection, &convert::find(find));
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
        let target = Arc::clone(&self.target);
        Box::pin(async move {
            let found = work::blocking(move || {
                let collection = find.collection.clone();
                let found = target.find_each(&collection, &convert::find_each(find));
                found.map_err(|failure| error::in_collection(failure, &collection))
            });
            Ok(EngineCursor::boxed(Fetched::keyed(found.await?)))
        })
    }

    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>> {
        let target = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
            let counted = target.count(&count.collection, &count.filter, count.limit);
            counted.map_err(|failure| error::in_collection(failure, &count.collection))
        }))
    }

    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>> {
        let target = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
            insert_into(insert, |collection, documents| {
                target.insert(collection, documents)
            })
        }))
    }

    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>> {
        let target = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
            let collection = update.collection.clone();
            let updated = target.update(&collection, &convert::update(update));
            updated
                .and_then(convert::updated)
                .map_err(|failure| error::in_collection(failure, &collection))
        }))
    }

    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>> {
        let target = Arc::clone(&self.target);
        Box::pin(work::blocking(move || {
            let collection = delete.collection.clone();
            let deleted = target.delete(&collection, &convert::delete(delete));
            deleted
                .map(convert::deleted)
                .map_err(|failure| error::in_collection(failure, &collection))
        }))
    }
}

impl Backend for Engine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true).with_change_streams(true)
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        let (database, collection) = (Arc::clone(&self.target), collection.to_owned());
        Box::pin(work::blocking(move || {
            let listed = database.list_indexes(&collection);
            let listed = listed.map_err(|failure| error::in_collection(failure, &collection))?;
            let listed = listed.into_iter().filter(|index| index.name != "_id_");
            Ok(listed.map(convert::index_from_engine).collect())
        }))
    }

    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>> {
        let (database, collection) = (Arc::clone(&self.target), collection.to_owned());
        Box::pin(work::blocking(move || {
            if indexes.is_empty() {
                return Ok(());
            }
            let indexes = indexes.into_iter().map(convert::index_to_engine);
            let indexes = indexes.collect::<Result<Vec<_>>>()?;
            let created = database.create_indexes(&collection, &indexes);
            created.map_err(|failure| error::in_collection(failure, &collection))
        }))
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let (database, collection, name) = (
            Arc::clone(&self.target),
            collection.to_owned(),
            name.to_owned(),
        );
        Box::pin(work::blocking(move || {
            let dropped = database.drop_index(&collection, &name);
            dropped.map_err(|failure| error::in_collection(failure, &collection))
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

/// Inserts, and names the document that was refused.
fn insert_into(
    insert: Insert,
    run: impl FnOnce(&str, Vec<RawDocumentBuf>) -> odm_engine::Result<InsertReport>,
) -> Result<()> {
    if insert.documents.is_empty() {
        return Ok(());
    }
    let id = |document: &RawDocumentBuf| document.get("_id").ok().flatten().map(RawBson::from);
    let ids: Vec<_> = insert.documents.iter().map(id).collect();
    let report = run(&insert.collection, insert.documents)
        .map_err(|failure| error::in_collection(failure, &insert.collection))?;
    let Some(failure) = report.failure else {
        return Ok(());
    };
    let error = error::in_collection(failure, &insert.collection).with_inserted(report.inserted);
    match ids
        .into_iter()
        .nth(report.inserted)
        .flatten()
        .map(bson::Bson::try_from)
    {
        Some(Ok(id)) => Err(error.with_id(id)),
        _ => Err(error),
    }
}
