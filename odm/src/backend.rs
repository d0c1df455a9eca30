//! The interface between the typed language and a database.
//!
//! A backend stores BSON documents in collections and knows nothing of models. The typed language compiles to the plain data of
//! [`operation`]. A [`Backend`] executes these operations: the embedded engine, MongoDB, or a wrapper such as [`Recorder`] and
//! [`Faults`].
//!
//! # The contract
//!
//! **Semantics.** Filters, updates, projections, sorts and pipelines have MongoDB's semantics, byte for byte. An operator or
//! option that a backend does not support is an error of kind [`Unsupported`](ErrorKind::Unsupported) that names the operator. A
//! backend ignores nothing.
//!
//! **Atomicity.** A write to one document, with its index entries, happens completely or not at all. A multi-document operation
//! is a sequence of single-document writes: [`Executor::insert`] of many documents, [`Executor::update`] and [`Executor::delete`]
//! with `multi`, [`Executor::bulk_write`]. Concurrent readers may see a part of the sequence, unless the operation runs in a
//! transaction.
//!
//! **Order.** Operations take effect in the order in which the caller awaits them. An ordered insert of many documents stops at
//! the first failure. The documents before the failure are stored, and [`Error::inserted`](crate::Error::inserted) returns their
//! number. The documents after the failure are not stored. An unordered insert stores every document that it can. Its error is
//! the first failure, and [`Error::failures`](crate::Error::failures) returns each failure with its position. In a transaction
//! the first failure ends the transaction, so `failures` returns only that failure. A bulk write follows the same rules and
//! returns the outcome of each write. An unordered bulk write may execute its writes in any order.
//!
//! **Collections.** The first document, the first index or [`Backend::create_collection`] creates a collection. A missing
//! collection reads as empty. [`Backend::drop_collection`] removes the documents and indexes of a collection. An open transaction
//! that has written to the dropped collection gets a conflict when it commits.
//!
//! **Upserts.** If no document matches, an upsert by operators inserts the filter's equalities, changed by the operators. An
//! upsert by replacement inserts the replacement with the filter's `_id`. Without an `_id` in either, the new document gets an
//! ObjectId.
//!
//! **Durability.** A write outside a transaction that returned `Ok`, or a successful [`BackendTransaction::commit`], survives a
//! crash of the process and of the machine. A write with [`Durability::Relaxed`] survives a crash of the process.
//!
//! **Reads.** A read sees every write that was acknowledged before the read began, and nothing that a later failure can roll
//! back. URL options that relax this (MongoDB's `readPreference` and `readConcernLevel`) apply to [`Backend::client_reads`]
//! alone.
//!
//! **Errors.** A failed read has no effect. A failed write of one document has written nothing, except for kind
//! [`Connection`](ErrorKind::Connection): the connection was lost and the outcome is unknown. In a transaction every error ends
//! the transaction and discards its writes. After an error of kind [`Conflict`](ErrorKind::Conflict) the caller may retry the
//! transaction from its beginning.
//!
//! **Changes.** A [watch](Backend::watch) returns every write that is committed after the start of the watch, once and in commit
//! order. The writes of one transaction are adjacent. Every returned event is durable, except the event of a relaxed write. Events have
//! MongoDB's form: `_id` (a resume token), `operationType`, `clusterTime`, `wallTime`, `ns.coll`, `documentKey`, and depending on the
//! operation `fullDocument` and `updateDescription`. Further fields differ between backends. A watch that starts after a token misses and
//! repeats no event, also in another process. If the backend has already deleted the history after the token, the watch or its
//! first batch fails with [`HistoryLost`](ErrorKind::HistoryLost).
//!
//! **Time limits.** A read that exceeds the `max_time` of its operation, including all batches, ends with an error of kind
//! [`Timeout`](ErrorKind::Timeout). A backend never ignores a limit. The time between two batches does not count.
//!
//! **Dropped futures.** Dropping the future of a write leaves each document either unchanged or completely written. The write may
//! still happen after the drop. Dropping the future or the cursor of a read ends the read soon, on a server too. Dropping a
//! [`BackendTransaction`] aborts the transaction. Dropping the wait for a batch of a cursor loses no documents: the next call
//! continues.

mod durability;
#[cfg(feature = "engine")]
mod engine;
mod faults;
#[cfg(feature = "mongodb")]
mod mongodb;
mod observed;
pub mod operation;
mod recorder;
mod trial;
mod weak_backend;
mod wrapper;

pub use durability::Durability;
#[cfg(feature = "engine")]
pub use engine::Engine;
pub use faults::{Fault, Faults};
#[cfg(feature = "mongodb")]
pub use mongodb::MongoDb;
pub(crate) use observed::{LastConflict, Observed};
pub use recorder::Recorder;
pub(crate) use trial::Trial;
use weak_backend::WeakBackend;
pub use wrapper::Wrapper;

use std::{fmt, path::Path, pin::Pin, sync::Arc, time::Duration};

use bson::{RawBson, RawDocumentBuf};

use crate::{Error, ErrorKind, Result};
use operation::{
    AggregateOperation, BulkWrite, BulkWriteResult, CollectionDefinition, CountOperation,
    DeleteOperation, DeleteResult, DistinctOperation, Explain, FindAndModify, FindEach,
    FindOperation, FindSeveral, Index, InsertOperation, ShardKey, UpdateOperation, UpdateResult,
    WatchOperation,
};

/// A boxed future that can be sent to another thread. The traits of this module return boxed futures to be object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An executor of reads and writes: a backend or a transaction.
///
/// The [module documentation](self) holds the contract of every method.
pub trait Executor: fmt::Debug + Send + Sync + 'static {
    /// Returns a cursor over the documents that match, in the requested order, as of one point in time or later.
    fn find(&self, find: FindOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>>;

    /// Returns all documents that match: the result of [`find`](Self::find) and [`read_to_end`], in as few round trips as
    /// possible.
    fn find_all(&self, find: FindOperation) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move { read_to_end(self.find(find).await?).await })
    }

    /// Explains how the database finds the documents that match. The database executes the query to count its reads.
    ///
    /// In a transaction on MongoDB the call fails with kind [`Unsupported`](ErrorKind::Unsupported).
    fn explain(&self, find: FindOperation) -> BoxFuture<'_, Result<Explain>>;

    /// Returns a cursor over the output of a pipeline on the documents of a collection, as of one point in time or later.
    ///
    /// In a transaction and on the engine, stages read further collections as of the same point in time. On MongoDB outside a
    /// transaction, each stage reads a further collection when the stage runs. A stage that writes is an error.
    fn aggregate(&self, aggregate: AggregateOperation) -> BoxFuture<'_, Result<Box<dyn Cursor>>>;

    /// Returns the whole output of a pipeline: the result of [`aggregate`](Self::aggregate) and [`read_to_end`], in as few round
    /// trips as possible.
    fn aggregate_all(
        &self,
        aggregate: AggregateOperation,
    ) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move { read_to_end(self.aggregate(aggregate).await?).await })
    }

    /// Finds the documents for each of several keys: the value at a path equals the key, or the array there contains the key.
    ///
    /// The cursor returns one document `{key: <position of the key, as int32>, document: {…}}` per match, sorted within each key.
    /// The order of the keys is not specified.
    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>>;

    /// Runs several queries in one round trip. In a transaction on MongoDB, each query takes a round trip.
    ///
    /// The cursor returns one document `{query: <position of the query, as int32>, document: {…}}` per match, in the order of the
    /// queries. Within each query the documents have the order of the query. In a transaction and on the engine, all queries read
    /// as of one point in time. On MongoDB outside a transaction, each query reads when the server reaches the query.
    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>>;

    /// Counts the documents that match.
    fn count(&self, count: CountOperation) -> BoxFuture<'_, Result<u64>>;

    /// Returns the distinct values at a path of the documents that match, in no particular order.
    ///
    /// Values are equal if a filter treats them as equal: `1` and `1.0` are one value.
    fn distinct(&self, distinct: DistinctOperation) -> BoxFuture<'_, Result<Vec<RawBson>>>;

    /// Inserts documents: in order up to the first failure, or every document that can be inserted.
    ///
    /// Every document has an `_id`, as its first field.
    fn insert(&self, insert: InsertOperation) -> BoxFuture<'_, Result<()>>;

    /// Changes or replaces the first document that matches, or changes all of them. With `upsert`, inserts a document if none
    /// matches.
    fn update(&self, update: UpdateOperation) -> BoxFuture<'_, Result<UpdateResult>>;

    /// Deletes the first document that matches, or all documents that match.
    fn delete(&self, delete: DeleteOperation) -> BoxFuture<'_, Result<DeleteResult>>;

    /// Changes, replaces or deletes the first document that matches, and returns the document from before or after the change.
    ///
    /// Returns `None` if no document matched, unless the caller asks for the document that an upsert inserted.
    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>>;

    /// Executes several writes, each with the effect of its single operation, and returns the outcome of each.
    ///
    /// If the call returns an error instead, the outcome of every write is unknown; in a transaction nothing was written.
    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWriteResult>>;
}

/// A database that executes operations.
pub trait Backend: Executor {
    /// Returns the optional features of this backend.
    fn capabilities(&self) -> Capabilities;

    /// Returns an executor for reads of the application, which follow the read options of the URL and may be stale.
    ///
    /// Writes through the executor are the same as writes through the backend. Returns `None` if the backend has only one kind of
    /// read.
    ///
    /// ```
    /// use odm::backend::{Backend, operation::CountOperation};
    /// # async fn example(backend: &dyn Backend) -> odm::Result<()> {
    /// let all = CountOperation { collection: "posts".into(), filter: Default::default(), limit: None, options: Default::default() };
    /// let posts = match backend.client_reads() {
    ///     Some(reads) => reads.count(all).await?, // from a secondary, if the URL has `readPreference=secondary`
    ///     None => backend.count(all).await?,
    /// };
    /// # Ok(())
    /// # }
    /// ```
    fn client_reads(&self) -> Option<Arc<dyn Executor>> {
        None
    }

    /// Returns the same database with this durability of its writes. `None` if the backend has a single durability, as MongoDB has:
    /// there every write is durable.
    fn with_durability(&self, durability: Durability) -> Option<Arc<dyn Backend>> {
        let _ = durability;
        None
    }

    /// Returns the name of the database system in logs and metrics: `db.system.name` in OpenTelemetry's conventions.
    fn system_name(&self) -> &'static str {
        "other"
    }

    /// Returns the names of the collections, sorted, without views and system collections.
    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>>;

    /// Creates a collection without documents. An existing collection stays unchanged.
    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Drops a collection with its documents and indexes. Dropping a missing collection does nothing.
    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Returns the indexes of a collection, without the index on `_id`. Returns no indexes for a missing collection.
    ///
    /// [`Index::unsupported_definition`] has the definitions that [`Index`] cannot describe.
    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>>;

    /// Creates indexes over the existing documents. Creates the collection if needed.
    ///
    /// An existing index with the same name and options stays unchanged.
    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Changes the time after which an index expires documents, without a rebuild. Queries can use the index during the change.
    fn set_expiry<'a>(
        &'a self,
        collection: &'a str,
        index: &'a str,
        after: Duration,
    ) -> BoxFuture<'a, Result<()>>;

    /// Drops the index with the given name.
    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Returns the shard key of a collection, or `None` if the collection is missing or not sharded.
    ///
    /// Fails with kind [`Unsupported`](ErrorKind::Unsupported) where [`Capabilities::sharding`] is false.
    fn shard_key_of<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<ShardKey>>> {
        Box::pin(async move { Err(sharding_unsupported(collection)) })
    }

    /// Shards a collection that is not sharded yet. Creates the collection if needed.
    ///
    /// A collection with documents needs an index that begins with the shard key. Fails with kind
    /// [`Unsupported`](ErrorKind::Unsupported) where [`Capabilities::sharding`] is false.
    fn shard_collection<'a>(
        &'a self,
        collection: &'a str,
        key: ShardKey,
    ) -> BoxFuture<'a, Result<()>> {
        let _ = key;
        Box::pin(async move { Err(sharding_unsupported(collection)) })
    }

    /// Returns the definitions of all collections and views, sorted by name, without system collections.
    ///
    /// Fails with kind [`Unsupported`](ErrorKind::Unsupported) by default.
    fn list_definitions(&self) -> BoxFuture<'_, Result<Vec<CollectionDefinition>>> {
        let message = format!(
            "the backend `{}` has no list of definitions",
            self.system_name()
        );
        Box::pin(async move { Err(Error::new(ErrorKind::Unsupported, message)) })
    }

    /// Checks that [`create_defined`](Self::create_defined) supports the kind, the options and the indexes of a definition.
    ///
    /// Fails with kind [`Unsupported`](ErrorKind::Unsupported), and names the option.
    fn ensure_definable(&self, definition: &CollectionDefinition) -> Result<()> {
        let message = format!(
            "the backend `{}` creates no definitions",
            self.system_name()
        );
        Err(Error::new(ErrorKind::Unsupported, message).with_collection(&*definition.name))
    }

    /// Creates a collection or a view with its options, and then its indexes.
    ///
    /// An existing collection keeps its options. An existing index with the same name and options stays unchanged.
    fn create_defined(&self, definition: CollectionDefinition) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.ensure_definable(&definition) })
    }

    /// Copies the database into a new file, in the state of one moment. Reads and writes go on meanwhile.
    ///
    /// Fails with kind [`Unsupported`](ErrorKind::Unsupported) if the database is not in this process.
    fn backup<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<()>> {
        let _ = path;
        let message =
            "only the embedded engine writes backups: use `mongodump` for a MongoDB server";
        Box::pin(async move { Err(Error::new(ErrorKind::Unsupported, message)) })
    }

    /// Makes the file of the database shorter: gives the space of deleted documents back to the file system. Reads go on meanwhile, and
    /// writes wait.
    ///
    /// Fails with kind [`Unsupported`](ErrorKind::Unsupported) if the database is not a file of this process.
    fn compact(&self) -> BoxFuture<'_, Result<CompactionReport>> {
        let message = "only a file of the embedded engine is compacted: use the command `compact` of a MongoDB server";
        Box::pin(async move { Err(Error::new(ErrorKind::Unsupported, message)) })
    }

    /// Returns the database of the embedded engine, to serve it to the clients of MongoDB. `None` if the database is not in this
    /// process.
    #[cfg(feature = "serve")]
    fn engine_database(&self) -> Option<odm_engine::Database> {
        None
    }

    /// Closes files and connections after the running writes have finished.
    ///
    /// Later operations fail with kind [`Closed`](ErrorKind::Closed), also in open transactions and cursors. Closing again does
    /// nothing.
    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Begins a transaction. Fails with kind [`Unsupported`](ErrorKind::Unsupported) where [`Capabilities::transactions`] is
    /// false.
    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn BackendTransaction>>>;

    /// Opens a change stream. Fails with kind [`Unsupported`](ErrorKind::Unsupported) where [`Capabilities::change_streams`] is
    /// false.
    ///
    /// A write that begins after this call has returned is always part of the stream.
    /// ```
    /// use odm::backend::{Backend, operation::{WatchFrom, WatchOperation}};
    /// # async fn example(
    /// #     backend: &dyn Backend,
    /// #     saved: bson::RawDocumentBuf,
    /// #     handle: impl Fn(&bson::RawDocument),
    /// #     save: impl Fn(bson::RawDocumentBuf),
    /// # ) -> odm::Result<()> {
    /// let mut changes = backend
    ///     .watch(WatchOperation { from: WatchFrom::After(saved), ..WatchOperation::collection("orders") })
    ///     .await?;
    /// loop {
    ///     let events = changes.next_batch().await?;
    ///     if events.is_empty() {
    ///         break; // The watched collection was dropped.
    ///     }
    ///     for event in &events {
    ///         handle(event);
    ///     }
    ///     save(changes.resume_token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn watch(&self, watch: WatchOperation) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>>;
}

/// Reads and writes on a snapshot of the database, which take effect together at the commit.
///
/// The transaction sees the snapshot and its own writes. If two transactions write one document, the first commit wins and the
/// second commit fails with kind [`Conflict`](ErrorKind::Conflict). After the end of the transaction every call fails with kind
/// [`TransactionOver`](ErrorKind::TransactionOver).
pub trait BackendTransaction: Executor {
    /// Makes all writes visible and durable at once.
    fn commit(&self) -> BoxFuture<'_, Result<()>>;

    /// Commits with low priority, for work that no caller waits for.
    ///
    /// A backend with serial commits may delay this commit briefly and merge it into the next commit of a concurrent transaction.
    /// So foreground commits do not wait for background work. By default this method is [`commit`](Self::commit).
    fn commit_low_priority(&self) -> BoxFuture<'_, Result<()>> {
        self.commit()
    }

    /// Discards all writes. Aborting a finished transaction does nothing.
    fn abort(&self) -> BoxFuture<'_, ()>;
}

/// A stream of documents that a read found, in batches.
pub trait Cursor: Send {
    /// Returns the next documents. An empty batch is the end of the cursor. After an error the cursor is at its end, too.
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>>;
}

/// A stream of committed changes since the start of a watch, in batches of events.
///
/// [`next_batch`](Cursor::next_batch) waits until there is an event. The stream ends after an `invalidate` event, when the
/// watched collection or database was dropped. The stream also ends after an error, which is returned once. An error with code
/// 10334 is the exception: the error replaces an event that is too large, and the next events follow.
pub trait ChangeCursor: Cursor {
    /// Returns the position of the stream in the history of the database, for [`WatchFrom::After`](operation::WatchFrom::After).
    ///
    /// The position is after the last returned event, and after later events that the filter excluded. A stream without matching
    /// events advances only while a caller waits for the next batch. A token is valid for one backend, as long as the backend
    /// keeps the history after the token.
    fn resume_token(&self) -> RawDocumentBuf;
}

/// The lengths of a database file before and after a [compaction](crate::Database::compact).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionReport {
    /// The length of the file before the compaction, in bytes.
    pub bytes_before: u64,
    /// The length of the file after the compaction, in bytes.
    pub bytes_after: u64,
}

/// The optional features of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether several documents can be written atomically. The engine and MongoDB replica sets can; a standalone MongoDB server
    /// cannot.
    pub transactions: bool,
    /// Whether committed changes can be watched. The engine and MongoDB replica sets support change streams.
    pub change_streams: bool,
    /// Whether collections can be sharded. A sharded MongoDB cluster supports sharding, if connected through its routers
    /// (`mongos`).
    pub sharding: bool,
    /// Whether writes execute serially, so that a long write delays all later writes. The engine executes writes this way.
    pub serial_writes: bool,
}

impl Capabilities {
    /// Creates capabilities with or without transactions, and without any other feature.
    #[must_use]
    pub fn new(transactions: bool) -> Self {
        Self {
            transactions,
            change_streams: false,
            sharding: false,
            serial_writes: false,
        }
    }

    /// Sets whether writes execute serially.
    #[must_use]
    pub fn with_serial_writes(self, serial_writes: bool) -> Self {
        Self {
            serial_writes,
            ..self
        }
    }

    /// Sets whether collections can be sharded.
    #[must_use]
    pub fn with_sharding(self, sharding: bool) -> Self {
        Self { sharding, ..self }
    }

    /// Sets whether committed changes can be watched.
    #[must_use]
    pub fn with_change_streams(self, change_streams: bool) -> Self {
        Self {
            change_streams,
            ..self
        }
    }
}

fn sharding_unsupported(collection: &str) -> Error {
    let message = "sharding needs a sharded MongoDB cluster: connect to the cluster through its routers (`mongos`)";
    Error::new(ErrorKind::Unsupported, message).with_collection(collection)
}

/// Reads a cursor to its end.
///
/// # Errors
///
/// Every error that the cursor returns.
pub async fn read_to_end(mut cursor: Box<dyn Cursor>) -> Result<Vec<RawDocumentBuf>> {
    let mut documents = Vec::new();
    loop {
        let batch = cursor.next_batch().await?;
        if batch.is_empty() {
            return Ok(documents);
        }
        documents.extend(batch);
    }
}

/// Opens the database at a URL.
///
/// # Errors
///
/// [`InvalidUrl`](ErrorKind::InvalidUrl) for an unknown scheme or a scheme without its cargo feature, and every error of the
/// backend.
pub async fn open(url: &str) -> Result<Arc<dyn Backend>> {
    match url.split_once(':') {
        #[cfg(feature = "engine")]
        Some(("odm", path)) => Ok(Arc::new(engine::open_url(path).await?)),
        #[cfg(feature = "engine")]
        Some(("memory", "")) => Ok(Arc::new(Engine::memory())),
        #[cfg(not(feature = "engine"))]
        Some(("odm" | "memory", _)) => Err(missing_feature(url, "engine")),
        #[cfg(feature = "mongodb")]
        Some(("mongodb" | "mongodb+srv", _)) => Ok(Arc::new(MongoDb::connect(url).await?)),
        #[cfg(not(feature = "mongodb"))]
        Some(("mongodb" | "mongodb+srv", _)) => Err(missing_feature(url, "mongodb")),
        #[cfg(feature = "engine")]
        Some(("memory", _)) => Err(unsupported_url("a name after `memory:`")),
        // Only the scheme is shown: the rest of a URL can contain a password.
        Some((scheme, _)) => Err(unsupported_url(&format!("the scheme `{scheme}:`"))),
        None => Err(unsupported_url("a URL without a scheme")),
    }
}

fn unsupported_url(found: &str) -> Error {
    let message = format!(
        "unsupported database URL, {found}: use `odm:path/to/file`, `memory:` or `mongodb://host/database`"
    );
    Error::new(ErrorKind::InvalidUrl, message)
}

#[cfg(not(all(feature = "engine", feature = "mongodb")))]
fn missing_feature(url: &str, feature: &str) -> Error {
    let scheme = url.split(':').next().unwrap_or_default();
    Error::new(
        ErrorKind::InvalidUrl,
        format!(
            "`{scheme}:` URLs need the feature `{feature}` of the crate `odm`: enable the feature in `Cargo.toml`"
        ),
    )
}
