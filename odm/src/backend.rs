//! The seam between the typed language and a database.
//!
//! A backend stores BSON documents in collections and knows nothing of models. The typed language compiles to the
//! plain data of [`operation`], and whatever implements [`Backend`] carries it out: the embedded engine, MongoDB, or a
//! wrapper such as [`Recorder`] and [`Faults`].
//!
//! # The contract
//!
//! **Meaning.** Filters, updates, projections, sorts and pipelines are MongoDB's, byte for byte. What a backend does not support is
//! an error of kind [`Unsupported`](ErrorKind::Unsupported) that names it; nothing is ignored.
//!
//! **Atomicity.** A write to one document, with its index entries, happens whole or not at all. An operation on several
//! documents ([`Executor::insert`] of many, [`Executor::update`] and [`Executor::delete`] with `multi`,
//! [`Executor::bulk_write`]) is a sequence of such writes; others may see it half done unless it runs in a transaction.
//!
//! **Order.** Operations awaited one after the other take effect in that order. An insert of many goes in order and stops
//! at the first failure: what stands before it is stored, what stands behind it is not, and
//! [`Error::inserted`](crate::Error::inserted) counts the former. An unordered one stores every document that can be; its
//! error is that of the first that cannot, and [`Error::failures`](crate::Error::failures) has each with its position. In a
//! transaction, which the first failure ends, that is the only one. A bulk of writes does the same, and tells of each write
//! what became of it; one that is not ordered may carry them out in any order.
//!
//! **Collections.** A collection comes into being with its first document, its first index, or by
//! [`Backend::create_collection`]; one that does not exist is empty. [`Backend::drop_collection`] removes its documents and
//! indexes; a transaction that has written to it, and commits later, conflicts.
//!
//! **Upserts.** What is inserted where nothing matched are the filter's equalities, changed by the operators, or the
//! replacement with the filter's `_id`; without an `_id` in either it gets an ObjectId.
//!
//! **Durability.** A write that returned `Ok` outside a transaction, or a [`Transaction::commit`] that did, survives a
//! crash of the process and of the machine.
//!
//! **Reads.** A read sees every write that was acknowledged before it began, and nothing that a later failure can take back.
//! Options of the URL that say otherwise (MongoDB's `readPreference` and `readConcernLevel`) apply to
//! [`Backend::client_reads`] alone.
//!
//! **Errors.** An error from a read has no effect. An error from a write of one document means that nothing was written,
//! except for kind [`Connection`](ErrorKind::Connection): the connection was lost and the outcome is unknown.
//! In a transaction every error ends the transaction, and nothing of it is kept; after one of kind
//! [`Conflict`](ErrorKind::Conflict) it may be tried again from its beginning.
//!
//! **Changes.** A [watch](Backend::watch) gives every write that was committed from its start on, once and in the order of
//! the commits; the writes of one transaction next to each other. What it gives is durable. Events have MongoDB's form:
//! `_id` (a resume token), `operationType`, `clusterTime`, `wallTime`, `ns.coll`, `documentKey`, and depending on the
//! operation `fullDocument` and `updateDescription`; further fields differ between backends. A watch that starts behind a
//! token misses nothing and repeats nothing, also in another process; if the backend has forgotten what was behind the
//! token, that is an error of kind [`HistoryLost`](ErrorKind::HistoryLost), from the watch or from its first batch.
//!
//! **Time limits.** A read that takes longer than the `max_time` of its operation, batches included, ends with an error of kind
//! [`Timeout`](ErrorKind::Timeout). A backend never ignores a limit. The time between two batches does not count.
//!
//! **Dropped futures.** Dropping the future of a write leaves it either undone or done, never half of one document; the
//! write may still happen after the drop. Dropping the future or the cursor of a read ends the read soon, on a server too.
//! Dropping a [`Transaction`] aborts it. Dropping the wait for a batch of a cursor loses nothing: the next call goes on.

mod background;
#[cfg(feature = "engine")]
mod engine;
mod faults;
#[cfg(feature = "mongodb")]
mod mongodb;
pub mod operation;
mod recorder;
mod wrapper;

pub(crate) use background::Background;
#[cfg(feature = "engine")]
pub use engine::Engine;
pub use faults::{Fault, Faults};
#[cfg(feature = "mongodb")]
pub use mongodb::MongoDb;
pub use recorder::Recorder;
pub use wrapper::Wrapper;

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use bson::{RawBson, RawDocumentBuf};

use crate::{Error, ErrorKind, Result};
use operation::{
    Aggregate, BulkWrite, BulkWritten, Count, Delete, Deleted, Distinct, Explain, Find,
    FindAndModify, FindEach, FindSeveral, Index, Insert, ShardKey, Update, Updated, Watch,
};

/// A boxed future that can be sent to another thread: what makes the traits here object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What reads and writes documents: a backend, or one of its transactions.
///
/// The [module documentation](self) holds the contract of every method.
pub trait Executor: fmt::Debug + Send + Sync + 'static {
    /// The documents that match, in the order asked for, as of one point in time or later.
    fn find(&self, find: Find) -> BoxFuture<'_, Result<Box<dyn Cursor>>>;

    /// The documents that match, all of them: what [`find`](Self::find) and [`drain`] give, in as few round trips as it takes.
    fn find_all(&self, find: Find) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move { drain(self.find(find).await?).await })
    }

    /// How the documents that match are found, and what that takes. It carries the query out to count what it reads.
    ///
    /// In a transaction it is an error of kind [`Unsupported`](ErrorKind::Unsupported) on MongoDB.
    fn explain(&self, find: Find) -> BoxFuture<'_, Result<Explain>>;

    /// What a pipeline makes of the documents of a collection, as of one point in time or later.
    ///
    /// Other collections that its stages read are read as of the same point in time in a transaction and on the engine,
    /// and on MongoDB outside of one whenever their turn comes. A stage that writes is refused.
    fn aggregate(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Box<dyn Cursor>>>;

    /// What a pipeline gives, all of it: what [`aggregate`](Self::aggregate) and [`drain`] give, in as few round trips as it takes.
    fn aggregate_all(&self, aggregate: Aggregate) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
        Box::pin(async move { drain(self.aggregate(aggregate).await?).await })
    }

    /// For each of several keys, the documents whose value at a path is, or whose array there contains, that key.
    ///
    /// The cursor gives one document `{key: <position of the key, as int32>, document: {…}}` for each, sorted within
    /// each key; the order of the keys is not specified.
    fn find_each(&self, find: FindEach) -> BoxFuture<'_, Result<Box<dyn Cursor>>>;

    /// The documents that match each of several queries, in one round trip; in a transaction on MongoDB, one for each.
    ///
    /// The cursor gives one document `{query: <position of the query, as int32>, document: {…}}` for each, in the order of
    /// the queries and within each in its own. They are read as of one point in time in a transaction and on the engine, and
    /// on MongoDB outside of one whenever their turn comes.
    fn find_several(&self, find: FindSeveral) -> BoxFuture<'_, Result<Box<dyn Cursor>>>;

    /// How many documents match.
    fn count(&self, count: Count) -> BoxFuture<'_, Result<u64>>;

    /// The values at a path of the documents that match, each once, in no particular order.
    ///
    /// They are told apart as a filter tells them apart: of `1` and `1.0` there is one.
    fn distinct(&self, distinct: Distinct) -> BoxFuture<'_, Result<Vec<RawBson>>>;

    /// Inserts documents, in order and stopping at the first that fails, or all that can be.
    ///
    /// Every document has an `_id`, as its first field.
    fn insert(&self, insert: Insert) -> BoxFuture<'_, Result<()>>;

    /// Changes or replaces the first document that matches, or changes all of them; or inserts one if none does.
    fn update(&self, update: Update) -> BoxFuture<'_, Result<Updated>>;

    /// Deletes the first document that matches, or all of them.
    fn delete(&self, delete: Delete) -> BoxFuture<'_, Result<Deleted>>;

    /// Changes, replaces or deletes the first document that matches, and returns it as it was before or is then; none if
    /// nothing matched, unless what was inserted instead is asked for.
    fn find_and_modify(
        &self,
        modify: FindAndModify,
    ) -> BoxFuture<'_, Result<Option<RawDocumentBuf>>>;

    /// Carries out several writes, each as its own operation would be, and tells what became of each.
    ///
    /// An error instead of that means that it is unknown which of them were carried out, or in a transaction none.
    fn bulk_write(&self, bulk: BulkWrite) -> BoxFuture<'_, Result<BulkWritten>>;
}

/// A database.
pub trait Backend: Executor {
    /// What this backend can do beyond the operations that every backend has.
    fn capabilities(&self) -> Capabilities;

    /// An executor for the reads of an application, which follow the options of the URL and may be stale. Writes are the same as of the
    /// backend. None where all reads are alike.
    ///
    /// ```
    /// use odm::backend::{Backend, operation::Count};
    /// # async fn example(backend: &dyn Backend) -> odm::Result<()> {
    /// let all = Count { collection: "posts".into(), filter: Default::default(), limit: None, max_time: None };
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

    /// The names of the collections, sorted, without views and those of the database itself.
    fn list_collections(&self) -> BoxFuture<'_, Result<Vec<String>>>;

    /// Creates a collection without documents. One that exists is left alone.
    fn create_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Drops a collection with its documents and indexes. Nothing happens if there is none.
    fn drop_collection<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<()>>;

    /// The indexes of a collection without the one on `_id`; none if the collection does not exist. [`Index::other`] has the options that
    /// [`Index`] cannot describe.
    fn list_indexes<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Vec<Index>>>;

    /// Creates indexes, with the collection if need be, over the documents that are there.
    ///
    /// An index that exists with the same name and the same options is left alone.
    fn create_indexes<'a>(
        &'a self,
        collection: &'a str,
        indexes: Vec<Index>,
    ) -> BoxFuture<'a, Result<()>>;

    /// Changes the time after which an index expires documents. The index stays in use and is not rebuilt.
    fn set_expiry<'a>(
        &'a self,
        collection: &'a str,
        index: &'a str,
        after: Duration,
    ) -> BoxFuture<'a, Result<()>>;

    /// Drops the index with this name.
    fn drop_index<'a>(&'a self, collection: &'a str, name: &'a str) -> BoxFuture<'a, Result<()>>;

    /// What a collection is sharded by; none if it is not, or does not exist. It fails with kind
    /// [`Unsupported`](ErrorKind::Unsupported) where [`Capabilities::sharding`] is false.
    fn shard_key_of<'a>(&'a self, collection: &'a str) -> BoxFuture<'a, Result<Option<ShardKey>>> {
        Box::pin(async move { Err(no_cluster(collection)) })
    }

    /// Shards a collection that is not sharded, with the collection if need be; one with documents has an index that begins with
    /// the key. It fails with kind [`Unsupported`](ErrorKind::Unsupported) where [`Capabilities::sharding`] is false.
    fn shard_collection<'a>(
        &'a self,
        collection: &'a str,
        key: ShardKey,
    ) -> BoxFuture<'a, Result<()>> {
        let _ = key;
        Box::pin(async move { Err(no_cluster(collection)) })
    }

    /// Closes files and connections, once writes that are under way are done. Later operations, also those of transactions
    /// and cursors, are errors of kind [`Closed`](ErrorKind::Closed). Closing again does nothing.
    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Begins a transaction, or fails with kind [`Unsupported`](ErrorKind::Unsupported) where
    /// [`Capabilities::transactions`] is false.
    fn begin(&self) -> BoxFuture<'_, Result<Arc<dyn Transaction>>>;

    /// Follows what is committed, or fails with kind [`Unsupported`](ErrorKind::Unsupported) where
    /// [`Capabilities::change_streams`] is false.
    ///
    /// The order of two calls counts: a write that begins when this has returned is in what it gives.
    ///
    /// ```
    /// use odm::backend::{Backend, operation::{Watch, WatchFrom}};
    /// # async fn example(
    /// #     backend: &dyn Backend,
    /// #     saved: bson::RawDocumentBuf,
    /// #     handle: impl Fn(&bson::RawDocument),
    /// #     save: impl Fn(bson::RawDocumentBuf),
    /// # ) -> odm::Result<()> {
    /// let mut changes = backend
    ///     .watch(Watch { from: WatchFrom::After(saved), ..Watch::collection("orders") })
    ///     .await?;
    /// loop {
    ///     let events = changes.next_batch().await?;
    ///     if events.is_empty() {
    ///         break; // What was watched has been dropped.
    ///     }
    ///     for event in &events {
    ///         handle(event);
    ///     }
    ///     save(changes.resume_token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn watch(&self, watch: Watch) -> BoxFuture<'_, Result<Box<dyn ChangeCursor>>>;
}

/// Reads and writes that take effect together, on a snapshot of the database, when committed.
///
/// It sees the snapshot and its own writes. Of two transactions that write one document, the first to commit wins and the
/// other gets an error of kind [`Conflict`](ErrorKind::Conflict). After its end every call is an error of kind
/// [`TransactionOver`](ErrorKind::TransactionOver).
pub trait Transaction: Executor {
    /// Makes all writes visible and durable at once.
    fn commit(&self) -> BoxFuture<'_, Result<()>>;

    /// The same for what nobody is waiting for, so that others do not wait for it either: where all writes are one behind the other, it
    /// may be committed together with one of theirs, soon. Unless a backend says otherwise it is [`commit`](Self::commit).
    fn commit_behind_others(&self) -> BoxFuture<'_, Result<()>> {
        self.commit()
    }

    /// Forgets all writes. Aborting what is over already does nothing.
    fn abort(&self) -> BoxFuture<'_, ()>;
}

/// The documents that a read found, in batches.
pub trait Cursor: Send {
    /// The next documents, at least one; an empty batch is the end. After an error comes the end, too.
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>>;
}

/// What has been committed since the start of a watch, in batches of events.
///
/// [`next_batch`](Cursor::next_batch) waits until there is an event. The stream ends after an event `invalidate`, when the watched
/// collection or database was dropped, and after an error, which is returned once. An error with the code 10334 is the
/// exception: it stands for one event that is too large, and the next events follow.
pub trait ChangeCursor: Cursor {
    /// Where this is in the history of the database, for [`WatchFrom::After`](operation::WatchFrom::After): behind the last
    /// event that it has given, and behind later ones that the filter did not want.
    ///
    /// A watch without any events to give comes forward only while it is waited for. Tokens are of one backend, and may be
    /// kept for as long as that remembers their events.
    fn resume_token(&self) -> RawDocumentBuf;
}

/// What a backend can do beyond the operations that every backend has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether several documents can be written atomically: the engine and MongoDB replica sets can, a standalone
    /// MongoDB server cannot.
    pub transactions: bool,
    /// Whether what is committed can be watched: again the engine and MongoDB replica sets can.
    pub change_streams: bool,
    /// Whether collections can be sharded: a sharded cluster of MongoDB can, reached through its routers (`mongos`).
    pub sharding: bool,
    /// Whether writes are carried out one after the other, so that a long one keeps all others waiting: those of the engine are.
    pub serial_writes: bool,
}

impl Capabilities {
    /// With transactions or without, and without anything else.
    #[must_use]
    pub fn new(transactions: bool) -> Self {
        Self {
            transactions,
            change_streams: false,
            sharding: false,
            serial_writes: false,
        }
    }

    /// With writes that are carried out one after the other or without.
    #[must_use]
    pub fn with_serial_writes(self, serial_writes: bool) -> Self {
        Self {
            serial_writes,
            ..self
        }
    }

    /// With collections that can be sharded or without.
    #[must_use]
    pub fn with_sharding(self, sharding: bool) -> Self {
        Self { sharding, ..self }
    }

    /// With change streams or without.
    #[must_use]
    pub fn with_change_streams(self, change_streams: bool) -> Self {
        Self {
            change_streams,
            ..self
        }
    }
}

fn no_cluster(collection: &str) -> Error {
    let message = "no collection is sharded here: only a sharded cluster of MongoDB does that, reached through its routers (`mongos`)";
    Error::new(ErrorKind::Unsupported, message).with_collection(collection)
}

/// Reads a cursor to its end.
///
/// # Errors
///
/// Whatever the cursor fails with.
pub async fn drain(mut cursor: Box<dyn Cursor>) -> Result<Vec<RawDocumentBuf>> {
    let mut documents = Vec::new();
    loop {
        let batch = cursor.next_batch().await?;
        if batch.is_empty() {
            return Ok(documents);
        }
        documents.extend(batch);
    }
}

/// Opens the backend that a URL names.
///
/// # Errors
///
/// [`InvalidUrl`](ErrorKind::InvalidUrl) for a scheme that is unknown or whose feature is off, and whatever the backend
/// fails with.
pub async fn open(url: &str) -> Result<Arc<dyn Backend>> {
    match url.split_once(':') {
        #[cfg(feature = "engine")]
        Some(("odm", path)) => Ok(Arc::new(Engine::open(path).await?)),
        #[cfg(feature = "engine")]
        Some(("memory", "")) => Ok(Arc::new(Engine::memory())),
        #[cfg(not(feature = "engine"))]
        Some(("odm" | "memory", _)) => Err(missing_feature(url, "engine")),
        #[cfg(feature = "mongodb")]
        Some(("mongodb" | "mongodb+srv", _)) => Ok(Arc::new(MongoDb::connect(url).await?)),
        #[cfg(not(feature = "mongodb"))]
        Some(("mongodb" | "mongodb+srv", _)) => Err(missing_feature(url, "mongodb")),
        _ => Err(Error::new(
            ErrorKind::InvalidUrl,
            "not the URL of a database: give `odm:path/to/file`, `memory:` or `mongodb://host/database`",
        )),
    }
}

#[cfg(not(all(feature = "engine", feature = "mongodb")))]
fn missing_feature(url: &str, feature: &str) -> Error {
    let scheme = url.split(':').next().unwrap_or_default();
    Error::new(
        ErrorKind::InvalidUrl,
        format!("`{scheme}:` URLs need the feature `{feature}` of the crate `odm`, which is off"),
    )
}
