//! The embedded engine.
//!
//! Its calls block: a write until it is on disk, a read as long as it scans. So they run on Tokio's threads for blocking
//! work; only the read of one document by its id, which costs less than the way there, runs where it is asked for.
//! Without a Tokio runtime everything does.

mod commands;
mod convert;
mod cursor;
mod error;
mod executor;
mod transaction;
mod work;

use std::{fmt, path::Path, sync::Arc};

use odm_engine as engine;

use super::{Backend, BoxFuture, Capabilities, Transaction, operation::Index};
use crate::Result;
use transaction::OpenTransaction;

/// The embedded engine, on a file or in memory; as a type parameter, the database or one of its transactions.
///
/// A cursor shows the state of the database, or of the transaction, when it was opened, and may outlive the latter.
pub struct Engine<T = engine::Database>(Arc<T>);

impl Engine {
    /// Opens the database in a file, which is created if there is none.
    ///
    /// # Errors
    ///
    /// [`InUse`](crate::ErrorKind::InUse) if a process has it open, [`Damaged`](crate::ErrorKind::Damaged) if it is not a
    /// whole file of this engine or of a newer version, [`Io`](crate::ErrorKind::Io) if the file system fails.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let opened = work::blocking(move || {
            engine::Database::open(&path).map_err(|failure| error::opening(failure, &path))
        });
        Ok(Self(Arc::new(opened.await?)))
    }

    /// A new database in memory, which lasts as long as its handles.
    #[must_use]
    pub fn memory() -> Self {
        Self(Arc::new(engine::Database::memory()))
    }

    /// The engine itself.
    #[must_use]
    pub fn database(&self) -> &engine::Database {
        &self.0
    }
}

impl<T> Clone for Engine<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Engine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Backend for Engine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(true)
    }

    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>> {
        self.run(collection.to_owned(), |database, collection| {
            let listed = database.list_indexes(collection)?.into_iter();
            let listed = listed.filter(|index| index.name != "_id_");
            Ok(listed.map(convert::index_from).collect())
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
            let indexes = indexes.into_iter().map(convert::index_to);
            let indexes = indexes.collect::<Result<Vec<_>>>()?;
            let create = move |database: &engine::Database, collection: &str| {
                database.create_indexes(collection, &indexes)
            };
            self.run(collection.to_owned(), create).await
        })
    }

    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>> {
        let name = name.to_owned();
        self.run(collection.to_owned(), move |database, collection| {
            database.drop_index(collection, &name)
        })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn Transaction>>> {
        Box::pin(async move {
            let begun = self.0.begin().map_err(error::from_engine)?;
            let begun: Arc<dyn Transaction> =
                Arc::new(Engine(Arc::new(OpenTransaction::new(begun))));
            Ok(begun)
        })
    }
}
