use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::DateTime;

use crate::command::{DropIndexes, collections, indexes, validate};
use crate::commit::{ChangeLog, Committer};
use crate::error::Result;
use crate::expiry::{self, Expiry};
use crate::index::Index;
use crate::overlay::{Overlay, Steps};
use crate::session::Session;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redb::{RedbStore, redb_storage};
use crate::transaction::Transaction;
use crate::watch::{ChangeStream, Watch};

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
        self.alone(|overlay, steps| collections::drop(overlay, steps, name))
    }

    /// Creates indexes, over the documents that are there already; all of them or none.
    ///
    /// An index that exists with the same name and definition is left alone.
    ///
    /// # Errors
    /// A definition that is not valid; another index with the same name or the same fields; documents
    /// with duplicate keys or parallel arrays; I/O.
    pub fn create_indexes(&self, collection: &str, indexes: &[Index]) -> Result<()> {
        self.alone(|overlay, steps| indexes::create(overlay, steps, collection, indexes))?;
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

    /// Hides the index with this name from queries, or shows it again. Hidden, it is kept up, stays
    /// unique and expires documents, so that one can see what queries do without it.
    ///
    /// # Errors
    /// There is no such index, or it is that of `_id`; I/O.
    pub fn set_index_hidden(&self, collection: &str, name: &str, hidden: bool) -> Result<()> {
        self.write(|overlay| indexes::set_hidden(overlay, collection, name, hidden))
    }

    /// Changes the time after which an index expires documents, as `collMod` with `expireAfterSeconds` on MongoDB. The index is not rebuilt.
    /// An index without expiry gets one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use odm_engine::{Database, Direction, Index};
    ///
    /// let database = Database::memory();
    /// let seen = Index::new([("seen", Direction::Ascending)]).expire_after(Duration::from_secs(60));
    /// database.create_indexes("visits", &[seen])?;
    /// database.set_index_expiry("visits", "seen_1", Duration::from_secs(3_600))?;
    /// assert_eq!(database.list_indexes("visits")?[1].expire_after, Some(Duration::from_secs(3_600)));
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// No such index; the index of `_id`, or with several fields; I/O.
    pub fn set_index_expiry(&self, collection: &str, name: &str, after: Duration) -> Result<()> {
        self.write(|overlay| indexes::set_expiry(overlay, collection, name, after))?;
        self.shared.expiry.start()
    }

    /// Drops the index with this name.
    ///
    /// # Errors
    /// There is no such index, or it is that of `_id`; I/O.
    pub fn drop_index(&self, collection: &str, name: &str) -> Result<()> {
        self.alone(|overlay, steps| indexes::drop(overlay, steps, collection, name))
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
        self.alone(|overlay, steps| indexes::drop_several(overlay, steps, collection, which))
    }

    /// Begins a transaction, which sees the database as it is now.
    ///
    /// # Errors
    /// I/O.
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(Arc::clone(self.committer()))
    }

    /// Sets whether finds, counts, updates and deletes that would read every document of a collection,
    /// because no index serves them, are refused with MongoDB's code 291. The error names the fields of an
    /// index that would serve. All handles to the database share the setting; it is not kept in the file.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Database, Find};
    ///
    /// let database = Database::memory();
    /// database.insert("people", vec![rawdoc! { "_id": 1, "name": "Ada" }])?.all()?;
    /// database.set_notablescan(true);
    /// let error = database.find("people", &Find { filter: rawdoc! { "name": "Ada" }, ..Find::default() }).unwrap_err();
    /// assert_eq!(error.code(), Some(291));
    /// assert!(error.message().contains("{ name: 1 }"));
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    pub fn set_notablescan(&self, forbids: bool) {
        let state = self.committer().state();
        state.catalog.policy().set_forbids_scans(forbids);
    }

    /// Watches what is committed.
    ///
    /// What can be watched is what is in the database's [change log](Database::set_change_log). A database that keeps
    /// none begins to with the first call of this, with the settings of [`ChangeLog::default`], and goes on from then
    /// on, also after it was closed: so a stream can be resumed.
    ///
    /// # Errors
    /// A filter that is not valid or not supported; a resume token that is none; history lost, if events behind the
    /// place to start at are not in the log; I/O.
    pub fn watch(&self, watch: &Watch) -> Result<ChangeStream> {
        ChangeStream::open(self.committer(), watch)
    }

    /// How much of the past this database keeps for those who watch it; `None` if it keeps no log.
    pub fn change_log(&self) -> Option<ChangeLog> {
        self.committer().state().log.settings()
    }

    /// Switches the change log on, changes what it keeps, or with `None` switches it off, which forgets all events.
    ///
    /// Without a log writes cost less: in a build without optimisation a durable commit of one document took as long
    /// (0.9 to 1.2 times) with a log as without, one of 500 documents 1.5 times, and 1.8 to 2.4 times once the log was
    /// full and dropped as many old events as it took new ones. Streams that are open when it is switched off fail with [history
    /// lost](crate::Error::is_history_lost), and a transaction that is open when it is switched on or off with a write
    /// conflict, so that it is run again and logged whole.
    ///
    /// # Errors
    /// I/O.
    pub fn set_change_log(&self, keep: Option<ChangeLog>) -> Result<()> {
        self.committer().configure_log(keep)
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

    /// Checks everything that is stored: that each document is whole, that each has its entries in the
    /// indexes of its collection, and that nothing else is there. Reads all of the database.
    ///
    /// # Errors
    /// Damaged, with what was found first; I/O.
    pub fn validate(&self) -> Result<()> {
        self.read(validate::run)
    }

    /// Opens the file anew if it could not be written to, as every write does by itself.
    ///
    /// When a write fails because of the file system, the file is opened anew at once, as it was before that write, and
    /// the database goes on. Only if that fails as well, it stays as it is, and this and every later write try again;
    /// what was committed can be read meanwhile. Cursors and transactions that were open at such a failure may fail.
    ///
    /// # Errors
    /// I/O: the file system still fails. Damaged. Closed.
    pub fn reopen(&self) -> Result<()> {
        self.committer().reopen()
    }

    /// Closes the database for all its handles, transactions, cursors and change streams: what they do from now on is
    /// an error of kind [`Closed`](crate::ErrorKind::Closed). Writes that are under way are carried out first. After
    /// this the file can be opened again. Closing again does nothing.
    ///
    /// A database is closed too when its last handle is dropped, with its transactions and change streams.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Count, Database};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data.odm");
    /// let database = Database::open(&path)?;
    /// let another_handle = database.clone();
    /// database.insert("people", vec![rawdoc! { "name": "Ada" }])?.all()?;
    /// database.close();
    /// assert!(another_handle.count("people", &Count::default()).unwrap_err().is_closed());
    /// assert_eq!(Database::open(&path)?.count("people", &Count::default())?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.shared.expiry.end();
        self.committer().close();
    }

    /// Opens the database in a storage other than a file: for tests of storages that fail. No part of
    /// the interface.
    #[doc(hidden)]
    pub fn open_storage(storage: impl redb::StorageBackend) -> Result<Database> {
        Database::on(Box::new(RedbStore::open_storage(storage)?))
    }

    /// What the engine lets redb see of a storage, where the pages have checksums: for tests that change what is
    /// stored. No part of the interface.
    #[doc(hidden)]
    pub fn redb_storage(storage: impl redb::StorageBackend) -> impl redb::StorageBackend {
        redb_storage(storage)
    }

    fn alone<T>(&self, operation: impl FnOnce(&mut Overlay, &mut Steps) -> Result<T>) -> Result<T> {
        self.committer().write_alone(operation)
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
