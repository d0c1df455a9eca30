use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{DateTime, Timestamp};

use crate::backup;
use crate::brief;
use crate::command::{
    CollectionStats, DatabaseStats, DropIndexes, collections, indexes, stats, validate,
};
use crate::commit::{ChangeLogLimits, Committer};
use crate::compaction::{self, CompactionReport};
use crate::durability::Durability;
use crate::error::Result;
use crate::expiry::{self, ExpiryWorker};
use crate::index::Index;
use crate::session::Session;
use crate::store::Store;
use crate::store::logged::LoggedStore;
use crate::store::memory::MemoryStore;
use crate::store::redb::{LOG_BYTES, RedbStore, redb_storage};
use crate::transaction::Transaction;
use crate::watch::{ChangeStream, Watch};

/// A database: collections of documents in one file or in memory. The methods for reading and writing documents are those of
/// [`Session`].
///
/// A clone is another handle to the same database. All methods block until they are done. Methods that write return once the
/// change is committed, with the [durability](Database::with_durability) of the handle.
///
/// ```
/// use bson::rawdoc;
/// use odm_engine::{Database, Find};
///
/// let database = Database::memory();
/// database.insert("people", vec![rawdoc! { "_id": 1, "name": "Ada" }])?.into_result()?;
/// let found = database.find("people", &Find { filter: rawdoc! { "name": "Ada" }, ..Find::default() })?;
/// assert_eq!(found.count(), 1);
/// # Ok::<(), odm_engine::Error>(())
/// ```
pub struct Database {
    shared: Arc<DatabaseShared>,
    session: Session,
}

struct DatabaseShared {
    expiry: ExpiryWorker,
    /// Locked during a backup: two backups to the same path would write to the same unfinished file.
    backup: Mutex<()>,
}

impl Database {
    /// Opens the database in the file at `path`. Creates the file if it does not exist.
    ///
    /// # Errors
    /// The file is in use (by this or another process), is not a database of this engine, is damaged or has a newer format; I/O.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_store(Box::new(LoggedStore::open(RedbStore::open(
            path.as_ref(),
        )?)?))
    }

    /// Opens the database in the file at `path` only for reads. The file stays unchanged, byte for byte, also when the database is
    /// closed. The process needs no permission to write the file.
    ///
    /// Commits in the write-ahead log of the file are visible. After a crash, the file may need a repair: the repair happens in
    /// memory. Documents do not expire. Several processes can open a file for reads at once. A process that writes excludes all of
    /// them. To read the data of a running program, let the program make a copy with [`backup`](Database::backup).
    ///
    /// Every write is an error of kind [`ReadOnly`](crate::ErrorKind::ReadOnly), also in a transaction. A
    /// [`watch`](Database::watch) is such an error if the change log is off.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Count, Database};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("shop.odm");
    /// let database = Database::open(&path)?;
    /// database.insert("orders", vec![rawdoc! { "total": 12 }])?.into_result()?;
    /// database.close();
    ///
    /// let database = Database::open_read_only(&path)?;
    /// assert_eq!(database.count("orders", &Count::default())?, 1);
    /// assert!(database.drop_collection("orders").unwrap_err().is_read_only());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The file does not exist, is in use by a process that writes, is not a database of this engine, is empty, is damaged or has a
    /// newer format; I/O. The kind is [`ReadOnly`](crate::ErrorKind::ReadOnly) if an index must be rebuilt because the collation rules
    /// of the program have changed: open the file once with [`open`](Database::open), or use
    /// [`compact_file`](Database::compact_file).
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_store(Box::new(LoggedStore::open(RedbStore::open_read_only(
            path.as_ref(),
        )?)?))
    }

    /// Creates a database in memory. The database lives as long as its handles.
    pub fn memory() -> Database {
        let database = Database::open_store(Box::new(MemoryStore::default()));
        database.expect("opening an in-memory store does no I/O")
    }

    /// Returns the names of the collections in byte order.
    ///
    /// # Errors
    /// Currently only if the database is closed.
    pub fn list_collections(&self) -> Result<Vec<String>> {
        self.read(|reading| Ok(collections::list(reading)))
    }

    /// Drops a collection with its documents and indexes, in one durable commit. Does nothing if the collection does not exist.
    ///
    /// The call then frees the space of the documents, beside concurrent writes. After a crash in between, the next drop or build of an index
    /// frees the space.
    ///
    /// Open cursors and transactions still see the documents. A transaction that writes to the collection gets a write conflict.
    ///
    /// # Errors
    /// I/O.
    pub fn drop_collection(&self, name: &str) -> Result<()> {
        self.committer()
            .drop_data(|overlay| collections::drop(overlay, name))
    }

    /// Creates indexes and builds them over existing documents. Creates either all indexes or none.
    ///
    /// Concurrent writes go on during a build. A unique index refuses duplicate keys from the end of the build on, and a duplicate that another
    /// write inserts during the build makes the build fail.
    ///
    /// An existing index with the same name and definition is left unchanged.
    ///
    /// # Errors
    /// An invalid definition; an existing index with the same name or the same fields; documents with duplicate keys or parallel
    /// arrays; I/O.
    pub fn create_indexes(&self, collection: &str, indexes: &[Index]) -> Result<()> {
        self.committer().create_indexes(collection, indexes)?;
        if indexes.iter().any(|index| index.expire_after.is_some()) {
            self.shared.expiry.start()?;
        }
        Ok(())
    }

    /// Returns the indexes of a collection, starting with the index of `_id`. A collection that does not exist has no indexes.
    ///
    /// # Errors
    /// Currently only if the database is closed.
    pub fn list_indexes(&self, collection: &str) -> Result<Vec<Index>> {
        self.read(|reading| Ok(indexes::list(reading, collection)))
    }

    /// Hides an index from queries, or shows it again.
    ///
    /// A hidden index is still maintained, enforces uniqueness and expires documents. Hiding shows how queries perform without
    /// the index.
    ///
    /// # Errors
    /// The index does not exist or is the index of `_id`; I/O.
    pub fn set_index_hidden(&self, collection: &str, name: &str, hidden: bool) -> Result<()> {
        self.committer().write(Durability::Full, |overlay| {
            indexes::set_hidden(overlay, collection, name, hidden)
        })
    }

    /// Changes the time after which an index expires documents, like MongoDB's `collMod` with `expireAfterSeconds`. The index is
    /// not rebuilt.
    ///
    /// An index without expiry gets an expiry.
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
    /// The index does not exist, is the index of `_id`, or has several fields; I/O.
    pub fn set_index_expiry(&self, collection: &str, name: &str, after: Duration) -> Result<()> {
        self.committer().write(Durability::Full, |overlay| {
            indexes::set_expiry(overlay, collection, name, after)
        })?;
        self.shared.expiry.start()
    }

    /// Drops an index by name.
    ///
    /// # Errors
    /// The index does not exist or is the index of `_id`; I/O.
    pub fn drop_index(&self, collection: &str, name: &str) -> Result<()> {
        self.committer()
            .drop_data(|overlay| indexes::drop(overlay, collection, name))
    }

    /// Drops several indexes. Drops either all of them or none.
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
    /// An index does not exist or is the index of `_id`; several indexes have the same fields; I/O.
    pub fn drop_indexes(&self, collection: &str, selection: &DropIndexes) -> Result<()> {
        self.committer()
            .drop_data(|overlay| indexes::drop_several(overlay, collection, selection))
    }

    /// Begins a transaction, which sees the current state of the database.
    ///
    /// # Errors
    /// I/O.
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(Arc::clone(self.committer()), self.durability())
    }

    /// Returns a handle to the same database with this durability for its writes and transactions. The default is
    /// [`Durability::Full`]. A database in memory has no durability.
    ///
    /// Always durable are large writes, indexes, dropped collections, the output of `$out` and `$merge`, and the deletes of expired
    /// documents.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Database, Durability};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data.odm");
    /// let database = Database::open(&path)?;
    /// let relaxed = database.with_durability(Durability::Relaxed);
    /// relaxed.insert("visits", vec![rawdoc! { "page": "/" }])?.into_result()?;
    /// // After this write, the visit also survives a power loss.
    /// database.insert("orders", vec![rawdoc! { "total": 12 }])?.into_result()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Database {
        Database {
            shared: Arc::clone(&self.shared),
            session: Session::on_database(Arc::clone(self.committer()), durability),
        }
    }

    /// Returns when a write of this handle returns.
    pub fn durability(&self) -> Durability {
        self.session.durability()
    }

    /// Makes all acknowledged writes durable. Only needed after writes with [`Durability::Relaxed`].
    ///
    /// # Errors
    /// I/O. A power loss may then lose the last writes. Closed.
    pub fn sync(&self) -> Result<()> {
        self.committer().sync()
    }

    /// Sets whether operations that need a full collection scan are refused with MongoDB's error code 291.
    ///
    /// The setting applies to finds, counts, updates and deletes for which no index is usable. The error names the fields of an
    /// index that would help. All handles to the database share the setting. The setting is not stored in the file.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Database, Find};
    ///
    /// let database = Database::memory();
    /// database.insert("people", vec![rawdoc! { "_id": 1, "name": "Ada" }])?.into_result()?;
    /// database.set_notablescan(true);
    /// let error = database.find("people", &Find { filter: rawdoc! { "name": "Ada" }, ..Find::default() }).unwrap_err();
    /// assert_eq!(error.code(), Some(291));
    /// assert!(error.message().contains("{ name: 1 }"));
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    pub fn set_notablescan(&self, forbids_scans: bool) {
        let state = self.committer().state();
        state.catalog.policy().set_forbids_scans(forbids_scans);
    }

    /// Opens a stream of committed changes.
    ///
    /// A stream reads the database's [change log](Database::set_change_log). If the log is off, the first call switches the log
    /// on, with the settings of [`ChangeLogLimits::default`]. The log then stays on, also after the database is closed, so that a
    /// stream can be resumed.
    ///
    /// # Errors
    /// A filter that is not valid or not supported; an invalid resume token; history lost, if the log no longer has the events
    /// after the starting point; I/O.
    pub fn watch(&self, watch: &Watch) -> Result<ChangeStream> {
        ChangeStream::open(self.committer(), watch)
    }

    /// Returns how much history the database keeps for change streams; `None` if the log is off.
    pub fn change_log(&self) -> Option<ChangeLogLimits> {
        self.committer().state().log.settings()
    }

    /// Switches the change log on, changes its limits, or switches it off with `None`. Switching off drops all events.
    ///
    /// The log makes writes slower. Measured in a build without optimization, compared to writes without a log:
    ///
    /// | durable commit of | time |
    /// |---|---|
    /// | 1 document | 0.9 to 1.2 times |
    /// | 500 documents | 1.5 times |
    /// | 500 documents, with a full log that drops as many events as it adds | 1.8 to 2.4 times |
    ///
    /// Streams that are open when the log is switched off fail with [history lost](crate::Error::is_history_lost). A transaction
    /// that is open when the log is switched on or off fails with a write conflict. A retry then logs the whole transaction.
    ///
    /// # Errors
    /// I/O.
    pub fn set_change_log(&self, log: Option<ChangeLogLimits>) -> Result<()> {
        self.committer().configure_log(log)
    }

    /// Sets how often a background thread deletes [expired](Index::expire_after) documents. The default is every 60 seconds.
    pub fn set_expiry_period(&self, period: Duration) {
        self.shared.expiry.set_period(period);
    }

    /// Deletes all documents that have expired by now, without waiting for the background thread. Returns the number of deleted
    /// documents.
    ///
    /// # Errors
    /// I/O. Some documents may already be deleted then.
    pub fn delete_expired(&self) -> Result<u64> {
        expiry::delete_expired(self.committer(), DateTime::now())
    }

    /// Checks all stored data. Each document must be valid and have its entries in all indexes, and there must be no other data.
    /// Reads the whole database.
    ///
    /// # Errors
    /// Damaged, with the first problem found; I/O.
    pub fn validate(&self) -> Result<()> {
        self.read(validate::run_validation)
    }

    /// Returns the sizes of the file, the collections and the indexes. Reads the whole database: every document and every index
    /// entry, in one state.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Database, Direction, Index};
    ///
    /// let database = Database::memory();
    /// database.create_indexes("people", &[Index::new([("tags", Direction::Ascending)])])?;
    /// let ada = rawdoc! { "_id": 1, "tags": ["math", "code"] };
    /// database.insert("people", vec![ada.clone()])?.into_result()?;
    ///
    /// let stats = database.stats()?;
    /// let people = &stats.collections[0];
    /// assert_eq!((people.documents, people.document_bytes), (1, ada.as_bytes().len() as u64));
    /// let by_tag = &people.indexes[1];
    /// assert_eq!((by_tag.index.name.as_str(), by_tag.entries), ("tags_1", 2));
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// I/O, damaged, cancelled, closed.
    pub fn stats(&self) -> Result<DatabaseStats> {
        brief::ensure_may_wait()?;
        self.read(|reading| stats::run_stats(reading, self.committer().storage_usage()?))
    }

    /// Returns the sizes of a collection and its indexes, or `None` if the collection does not exist. Reads the whole collection.
    ///
    /// ```
    /// use bson::rawdoc;
    ///
    /// let database = odm_engine::Database::memory();
    /// database.insert("people", vec![rawdoc! { "_id": 1 }])?.into_result()?;
    /// assert_eq!(database.collection_stats("people")?.map(|people| people.documents), Some(1));
    /// assert_eq!(database.collection_stats("orders")?, None);
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// I/O, damaged, cancelled, closed.
    pub fn collection_stats(&self, name: &str) -> Result<Option<CollectionStats>> {
        brief::ensure_may_wait()?;
        self.read(|reading| stats::run_collection_stats(reading, name))
    }

    /// Returns the length of the file in bytes, without a read of the file; `None` in memory.
    ///
    /// # Errors
    /// I/O, closed.
    pub fn file_bytes(&self) -> Result<Option<u64>> {
        Ok(self.committer().storage_usage()?.file_bytes)
    }

    /// Returns whether the database was opened only for reads.
    pub fn is_read_only(&self) -> bool {
        self.committer().is_read_only()
    }

    /// Returns the current cluster time: not before the event of any visible write, and not after the event of any later write.
    ///
    /// So a stream [from this time](crate::WatchFrom::At) has the events of all later writes. As on MongoDB, the stream can also
    /// have events of the last commit before.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Database, Watch, WatchFrom};
    ///
    /// let database = Database::memory();
    /// database.watch(&Watch::default())?; // switches the change log on
    /// let time = database.cluster_time();
    /// database.insert("people", vec![rawdoc! { "_id": 1 }])?.into_result()?;
    /// let mut changes = database.watch(&Watch { from: WatchFrom::At(time), ..Watch::default() })?;
    /// assert!(changes.try_next()?.is_some());
    /// # Ok::<(), odm_engine::Error>(())
    /// ```
    pub fn cluster_time(&self) -> Timestamp {
        self.committer().state().log.cluster_time(DateTime::now())
    }

    /// Makes the file at `path` shorter: gives the space of deleted documents back to the file system. No process has the file open,
    /// also not this process.
    ///
    /// A file grows, and reuses the space of deleted documents, but never becomes shorter by itself. A compaction writes the content
    /// into a new file beside the file, without free pages, and then replaces the file in one step. A crash leaves the old file or the new
    /// file. The disk needs room for both files. The name of the new file ends with `.unfinished` until then, and the next compaction
    /// or backup to the same path removes a file that a crash left behind.
    ///
    /// Other processes may try to open the file meanwhile, and get an error. On Windows, no process may try: a process that opens the
    /// old file in the moment of the replacement would write to the old file.
    ///
    /// The new file has the owner, the group and the permissions of the old file, and the newest
    /// [format](DatabaseStats::format_version). Access control lists and extended attributes are not kept. A hard link to the old file
    /// keeps the old content.
    ///
    /// Indexes whose collation rules have changed are rebuilt first, in the old file.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Count, Database, Delete};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("shop.odm");
    /// let database = Database::open(&path)?;
    /// let orders = (0..20_000).map(|id| rawdoc! { "_id": id, "text": "x".repeat(500) });
    /// database.insert("orders", orders.collect())?.into_result()?;
    /// database.delete("orders", &Delete { filter: rawdoc! { "_id": { "$gte": 10 } }, multi: true, ..Delete::default() })?;
    /// database.close();
    ///
    /// let report = Database::compact_file(&path)?;
    /// assert!(report.bytes_after < report.bytes_before / 2);
    /// assert_eq!(Database::open(&path)?.count("orders", &Count::default())?, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In use. The file does not exist, is empty, is not a database of this engine, is damaged or has a newer format. The name with
    /// `.unfinished` belongs to a foreign file. The process may not give the new file the owner or the group of the old file. I/O, storage
    /// full, cancelled: the old content is unchanged then. Would block, within [`run_briefly`](crate::run_briefly).
    pub fn compact_file(path: impl AsRef<Path>) -> Result<CompactionReport> {
        brief::ensure_may_wait()?;
        compaction::compact_closed_file(path.as_ref())
    }

    /// Makes the file of the open database shorter: gives the space of deleted documents back to the file system.
    ///
    /// Works like [`compact_file`](Database::compact_file). Reads go on. Transactions begin and write, and commits wait, about as long
    /// as a [backup](Database::backup) takes. The call waits for running large writes and builds of indexes. Cursors and transactions stay
    /// valid: they read the old file, and its space is free when the last of them has ended.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Database, Delete};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("shop.odm");
    /// let database = Database::open(&path)?;
    /// let orders = (0..20_000).map(|id| rawdoc! { "_id": id, "text": "x".repeat(500) });
    /// database.insert("orders", orders.collect())?.into_result()?;
    /// database.delete("orders", &Delete { filter: rawdoc! { "_id": { "$gte": 10 } }, multi: true, ..Delete::default() })?;
    ///
    /// let report = database.compact()?;
    /// assert!(report.bytes_after < report.bytes_before / 2);
    /// database.insert("orders", vec![rawdoc! { "_id": 10 }])?.into_result()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Unsupported: a database in memory. Read-only. The path belongs to another file now: in use. The errors of
    /// [`compact_file`](Database::compact_file). Closed.
    ///
    /// The old content is unchanged then. After an I/O error at the very end, the file can be the short file already. Later writes first
    /// make this replacement durable, or fail.
    pub fn compact(&self) -> Result<CompactionReport> {
        self.committer().check_open()?;
        self.committer().compact()
    }

    /// Copies the database into a new file, in the state of the last durable write. Reads and writes go on meanwhile.
    ///
    /// The copy is a database: [`open`](Database::open) restores the backup. The copy has no space of deleted documents, so it can be smaller than the
    /// original file. A database in memory is copied too. The file appears under its name when it is complete and durable. Until
    /// then, its name ends with `.unfinished`. A backup that died leaves this file behind, and the next backup to the same path
    /// removes it.
    ///
    /// The copy has the permissions that the original file had when it was opened. Of a database in memory, only the owner can access the
    /// copy. While the copy is written, only the owner can access it.
    ///
    /// While other threads write, the backup works for half of the time, and takes longer. A snapshot keeps its pages, so the original
    /// file grows by the writes during the backup. A second backup of the database waits for the first one.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Count, Database};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let folder = directory.path();
    /// let database = Database::open(folder.join("shop.odm"))?;
    /// database.insert("orders", vec![rawdoc! { "total": 12 }])?.into_result()?;
    /// database.backup(folder.join("monday.odm"))?;
    /// database.drop_collection("orders")?;
    ///
    /// let monday = Database::open(folder.join("monday.odm"))?;
    /// assert_eq!(monday.count("orders", &Count::default())?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The file exists, I/O, storage full. A backup of another database writes to the same path: in use. The name with `.unfinished` belongs to a
    /// foreign file. The original is damaged. Cancelled, closed.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        brief::ensure_may_wait()?;
        let _one_at_a_time = brief::lock(&self.shared.backup)?;
        self.committer().check_open()?;
        let committer = self.committer();
        backup::write_copy(
            &committer.state().view,
            committer.permissions(),
            path.as_ref(),
            &|| committer.has_recent_write(),
        )
    }

    /// Reopens the file if it is not writable. Every write does the same first.
    ///
    /// When a write fails because of the file system, the database reopens the file at once, in the state before that write, and
    /// continues. Only if reopening fails, the database stays read-only until a later write or this method succeeds. Cursors and
    /// transactions that were open during the failure may fail.
    ///
    /// # Errors
    /// I/O: the file system still fails. Damaged. Closed.
    pub fn reopen(&self) -> Result<()> {
        self.committer().reopen()
    }

    /// Closes the database for all its handles, transactions, cursors and change streams. Later use is an error of kind
    /// [`Closed`](crate::ErrorKind::Closed).
    ///
    /// Running writes are completed first. Afterwards the file can be opened again. Closing a closed database does nothing.
    ///
    /// A database also closes when its last handle is dropped, counting transactions and change streams.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use odm_engine::{Count, Database};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data.odm");
    /// let database = Database::open(&path)?;
    /// let another_handle = database.clone();
    /// database.insert("people", vec![rawdoc! { "name": "Ada" }])?.into_result()?;
    /// database.close();
    /// assert!(another_handle.count("people", &Count::default()).unwrap_err().is_closed());
    /// assert_eq!(Database::open(&path)?.count("people", &Count::default())?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.shared.expiry.stop();
        self.committer().close();
    }

    /// Opens the database in a storage other than a file, for tests of failing storages. Not part of the public interface.
    #[doc(hidden)]
    pub fn open_storage(storage: impl redb::StorageBackend) -> Result<Database> {
        Database::open_storage_with_log(storage, LOG_BYTES)
    }

    /// Like [`open_storage`](Database::open_storage), with the length of the write-ahead log in a new storage, in bytes. The length
    /// is a multiple of 4096. Not part of the public interface.
    #[doc(hidden)]
    pub fn open_storage_with_log(
        storage: impl redb::StorageBackend,
        log_bytes: u64,
    ) -> Result<Database> {
        let store = RedbStore::open_storage(storage, log_bytes)?;
        Database::open_store(Box::new(LoggedStore::open(store)?))
    }

    /// Opens the database in a storage other than a file only for reads. Not part of the public interface.
    #[doc(hidden)]
    pub fn open_storage_read_only(storage: impl redb::StorageBackend) -> Result<Database> {
        let store = RedbStore::open_storage_read_only(storage)?;
        Database::open_store(Box::new(LoggedStore::open(store)?))
    }

    /// Returns a storage as redb sees it, without the pages of checksums, for tests that modify stored data. Not part of the
    /// public interface.
    #[doc(hidden)]
    pub fn redb_storage(storage: impl redb::StorageBackend) -> impl redb::StorageBackend {
        redb_storage(storage)
    }

    pub(crate) fn open_store(store: Box<dyn Store>) -> Result<Database> {
        let committer = Arc::new(Committer::open(store)?);
        let expiry = ExpiryWorker::new(&committer);
        if expiry::is_needed(&committer) {
            expiry.start()?;
        }
        Ok(Database {
            shared: Arc::new(DatabaseShared {
                expiry,
                backup: Mutex::default(),
            }),
            session: Session::on_database(committer, Durability::default()),
        })
    }
}

impl Clone for Database {
    fn clone(&self) -> Database {
        self.with_durability(self.durability())
    }
}

impl Deref for Database {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("durability", &self.durability())
            .finish_non_exhaustive()
    }
}
