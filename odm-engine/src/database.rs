use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::DateTime;

use crate::command::{DropIndexes, Explain, Find, collections, explain, indexes};
use crate::commit::Committer;
use crate::error::Result;
use crate::expiry::{self, Expiry};
use crate::index::Index;
use crate::session::Session;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redb::RedbStore;
use crate::transaction::Transaction;

/// A database: collections of documents in one file, or in memory; reading and writing is that of a
/// [`Session`].
///
/// A clone is another handle to the same database. All methods block until they are done; those that
/// write return once the change is durable.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Database, Find};
///
/// let database = Database::memory();
/// database.insert("people", vec![rawdoc! { "_id": 1, "name": "Ada" }])?.all()?;
/// let found = database.find("people", &Find { filter: rawdoc! { "name": "Ada" }, ..Find::default() })?;
/// assert_eq!(found.count(), 1);
/// # Ok::<(), odm_engine::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    session: Session,
    expiry: Expiry,
}

impl Database {
    /// Opens the database in the file at `path`, which is created if there is none.
    ///
    /// # Errors
    /// The file is in use (by this or another process), is not a database of this engine, is damaged or
    /// of a newer format; I/O.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::on(Box::new(RedbStore::open(path.as_ref())?))
    }

    /// A new database that exists for as long as a handle to it does.
    pub fn memory() -> Database {
        let opened = Database::on(Box::new(MemoryStore::default()));
        opened.expect("a store in memory has nothing to fail on")
    }

    /// The names of the collections, in the order of their bytes.
    ///
    /// # Errors
    /// None for now.
    pub fn list_collections(&self) -> Result<Vec<String>> {
        self.read(|reading| Ok(collections::list(reading)))
    }

    /// Drops a collection with its documents and indexes, in one durable commit; nothing happens if
    /// there is none.
    ///
    /// What was begun before is not disturbed: a cursor and a transaction go on seeing the documents. A
    /// transaction that writes to the collection gets a write conflict.
    ///
    /// # Errors
    /// I/O.
    pub fn drop_collection(&self, name: &str) -> Result<()> {
        self.write(|overlay| collections::drop(overlay, name))
    }

    /// Runs a query and says how it found its documents.
    ///
    /// # Errors
    /// As [`find`](Session::find).
    pub fn explain(&self, collection: &str, find: &Find) -> Result<Explain> {
        self.read(|reading| explain::run(reading, collection, find))
    }

    /// Creates indexes, over the documents that are there already; all of them or none.
    ///
    /// An index that exists with the same name and definition is left alone.
    ///
    /// # Errors
    /// A definition that is not valid; another index with the same name or the same fields; documents
    /// with duplicate keys or parallel arrays; I/O.
    pub fn create_indexes(&self, collection: &str, indexes: &[Index]) -> Result<()> {
        self.write(|overlay| indexes::create(overlay, collection, indexes))?;
        if indexes.iter().any(|index| index.expire_after.is_some()) {
            self.shared.expiry.start()?;
        }
        Ok(())
    }

    /// The indexes of a collection, that of `_id` first. A collection that does not exist has none.
    ///
    /// # Errors
    /// None for now.
    pub fn list_indexes(&self, collection: &str) -> Result<Vec<Index>> {
        self.read(|reading| Ok(indexes::list(reading, collection)))
    }

    /// Drops the index with this name.
    ///
    /// # Errors
    /// There is no such index, or it is that of `_id`; I/O.
    pub fn drop_index(&self, collection: &str, name: &str) -> Result<()> {
        self.write(|overlay| indexes::drop(overlay, collection, name))
    }

    /// Drops several indexes, all of them or none.
    ///
    /// ```
    /// use odm_engine::{Database, Direction, DropIndexes, Index};
    ///
    /// let database = Database::memory();
    /// let indexes = ["a", "b"].map(|path| Index::new([(path, Direction::Ascending)]));
    /// database.create_indexes("c", &indexes)?;
    /// database.drop_indexes("c", &DropIndexes::All)?;
    /// assert_eq!(database.list_indexes("c")?.len(), 1);
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such index, or it is that of `_id`; several have the same fields; I/O.
    pub fn drop_indexes(&self, collection: &str, which: &DropIndexes) -> Result<()> {
        self.write(|overlay| indexes::drop_several(overlay, collection, which))
    }

    /// Begins a transaction, which sees the database as it is now.
    ///
    /// # Errors
    /// I/O.
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(Arc::clone(self.committer()))
    }

    /// Sets how often a background thread deletes the documents that [expire](Index::expire_after);
    /// without that, every 60 seconds.
    pub fn set_expiry_period(&self, period: Duration) {
        self.shared.expiry.set_period(period);
    }

    /// Deletes the documents that have expired now, without waiting for the background thread, and
    /// returns their number.
    ///
    /// # Errors
    /// I/O. Some documents may have been deleted then.
    pub fn delete_expired(&self) -> Result<u64> {
        expiry::delete_expired(self.committer(), DateTime::now())
    }

    fn on(store: Box<dyn Store>) -> Result<Database> {
        let committer = Arc::new(Committer::open(store)?);
        let expiry = Expiry::new(&committer);
        if expiry::is_needed(&committer) {
            expiry.start()?;
        }
        let session = Session::direct(committer);
        Ok(Database {
            shared: Arc::new(Shared { session, expiry }),
        })
    }
}

impl Deref for Database {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.shared.session
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}
