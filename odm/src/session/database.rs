//! Databases with the models of a schema.

mod options;
#[cfg(feature = "serve")]
mod serve;

use std::{fmt, ops::Deref, path::Path, sync::Arc, time::Duration};

pub use options::{DatabaseOptions, IndexCheck};
#[cfg(feature = "serve")]
pub use serve::DatabaseServer;

use crate::{
    Result,
    action::{Lengths, measure_lengths},
    backend::{
        Backend, CompactionReport, Durability,
        operation::{CountOperation, ReadOptions},
    },
    check::{Backfill, Repair, declared},
    model::document::Document,
    pending::{
        PendingWork, WaitForPending, Worker, blocked::release_blocked, expired::RecoveryReport,
        read_pending_work,
    },
    schema::{
        Contains, Schema, SyncIndexes, UpgradeReport,
        upgrade::{outdated_filter, upgrade_model},
    },
    session::{
        Session,
        transaction::{RunTransaction, Transaction, TransactionError},
        watch::{Watch, WatchAll},
    },
    write,
};

/// A database with the models of the schema `S`. Cheap to clone, and safe to share.
///
/// A database dereferences to [`Session`], which has the typed operations. Operations run on the caller's Tokio runtime, with
/// timers enabled. On another executor, the library starts a runtime of its own, with a single thread.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, Document)]
/// #[document(collection = "parts")]
/// struct Part { #[serde(rename = "_id")] id: i64, name: String }
///
/// #[derive(Schema)]
/// #[schema(models(Part))]
/// struct Shop;
/// type Db = odm::Database<Shop>;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// let db = Db::open("memory:").await?;
/// db.insert(Part { id: 7, name: "left wheel".into() }).await?;
/// assert_eq!(db.get::<Part>(7).await?.name, "left wheel");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
pub struct Database<S> {
    backend: Arc<dyn Backend>,
    session: Session<S>,
}

impl<S: Schema> Database<S> {
    /// Opens the database of a URL: `odm:path/to/file` or `memory:` for the embedded engine, `mongodb://host/database` for a
    /// server. `odm:path/to/file?durability=relaxed` exchanges the last writes before a power loss for faster writes. A `?` ends the
    /// path: `backend::Engine::open` opens a file with a `?` in its name.
    ///
    /// # Errors
    ///
    /// - [`InvalidUrl`](crate::ErrorKind::InvalidUrl) for an unknown URL.
    /// - [`Connection`](crate::ErrorKind::Connection) if the server does not answer.
    /// - [`InUse`](crate::ErrorKind::InUse) and [`Damaged`](crate::ErrorKind::Damaged) for files.
    pub async fn open(url: impl AsRef<str>) -> Result<Self> {
        Self::options().open(url).await
    }

    /// Returns the default options, to change them before the database is opened.
    pub fn options() -> DatabaseOptions<S> {
        DatabaseOptions::new()
    }

    /// Creates a database on a backend: an opened backend, or a wrapper such as a [`Recorder`](crate::backend::Recorder).
    pub fn with_backend(backend: Arc<dyn Backend>) -> Self {
        Self::options().with_backend(backend)
    }

    /// Returns the backend, for operations that the typed language does not have. Writes through the backend bypass all
    /// maintenance.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Returns a handle to the same database with this durability for its writes and transactions. The default is
    /// [`Durability::Full`], or the option `durability` of the URL.
    ///
    /// [`Durability::Relaxed`] suits writes that a program can repeat, such as visits, caches and imports. They are faster, because
    /// they start no sync of the file. Only the embedded engine has relaxed writes. On MongoDB, every write is durable. So are large
    /// writes, indexes and dropped collections on the engine. Work that goes on after a write has returned has the durability of the
    /// opened database.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// use odm::Durability;
    ///
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "visits")]
    /// # struct Visit { #[serde(rename = "_id")] id: i64, page: String }
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "orders")]
    /// # struct Order { #[serde(rename = "_id")] id: i64, total: i64 }
    /// # #[derive(Schema)] #[schema(models(Visit, Order))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("odm-durability-{}.odm", std::process::id()));
    /// # let url = format!("odm:{}", path.display());
    /// let db = odm::Database::<Shop>::open(url).await?;
    /// let relaxed = db.with_durability(Durability::Relaxed);
    /// relaxed.insert(Visit { id: 1, page: "/".into() }).await?;
    /// db.insert(Order { id: 1, total: 12 }).await?; // durable, and the visit before too
    /// # db.close().await?;
    /// # let _ = std::fs::remove_file(path);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Self {
        let Some(backend) = self.backend.with_durability(durability) else {
            return self.clone();
        };
        Self {
            session: Session::new(self.session.access().with_durability_of(backend.clone())),
            backend,
        }
    }

    /// Closes the database, with its files or connections, for all handles. Later operations, also of open transactions and
    /// streams, return an error of kind [`Closed`](crate::ErrorKind::Closed). Writes in progress finish first. Background work
    /// ends at the next step, and the remaining work stays pending in the database, as after the end of a process
    /// ([`wait_for_pending`](Self::wait_for_pending) waits for such work). Closing twice is allowed.
    ///
    /// A file is also closed when the last handle is dropped, including all actions, streams and transactions of the database.
    /// With `close`, the caller knows when the file is closed.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// let db = odm::Database::<Shop>::open("memory:").await?;
    /// let another_handle = db.clone();
    /// db.insert(Part { id: 1 }).await?;
    /// db.close().await?;
    /// assert!(another_handle.get::<Part>(1).await.unwrap_err().is_closed());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn close(&self) -> Result<()> {
        self.backend.close().await
    }

    /// Copies a database of the embedded engine into a new file, in the state of one moment. Reads and writes go on meanwhile.
    ///
    /// The copy is a database file: open the copy, or put the copy in place of a lost file. The copy has no space of deleted
    /// documents, so it can be smaller than the original. The file appears under its name when it is complete. Until then, its name
    /// ends with `.unfinished`.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # type Db = odm::Database<Shop>;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let name = format!("odm-backup-{}.odm", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// let db = Db::open("memory:").await?;
    /// db.insert(Part { id: 1 }).await?;
    /// db.backup(&path).await?;
    ///
    /// let copy = Db::open(format!("odm:{}", path.display())).await?;
    /// assert_eq!(copy.find::<Part>().count().await?, 1);
    /// # copy.close().await?;
    /// # let _ = std::fs::remove_file(path);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Io`](crate::ErrorKind::Io) if the file exists, or if the file system fails.
    /// - [`StorageFull`](crate::ErrorKind::StorageFull) if the copy does not fit.
    /// - [`InUse`](crate::ErrorKind::InUse) if a backup of another database writes to the same path.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) on MongoDB: use `mongodump`.
    pub async fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        self.backend.backup(path.as_ref()).await
    }

    /// Makes the file of the embedded engine shorter: gives the space of deleted documents back to the file system.
    ///
    /// A file grows, and reuses the space of deleted documents, but never becomes shorter by itself. A compaction writes the content to a
    /// new file, which then replaces the old file in one step. The disk needs room for both. Reads go on meanwhile. Writes wait, about as
    /// long as a [backup](Self::backup) takes. A crash leaves the old file or the new file.
    ///
    /// A drop of the future ends the copy, and the old file stays. After the copy, the compaction completes in the background.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # type Db = odm::Database<Shop>;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("odm-compact-{}.odm", std::process::id()));
    /// let db = Db::open(format!("odm:{}", path.display())).await?;
    /// db.insert_many((0..2_000).map(|id| Part { id })).await?;
    /// db.delete_many::<Part>(|p| p.id().gte(10)).await?;
    ///
    /// let report = db.compact().await?;
    /// assert!(report.bytes_after <= report.bytes_before);
    /// # db.close().await?;
    /// # let _ = std::fs::remove_file(path);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) on MongoDB, and for a database in memory.
    /// - [`Io`](crate::ErrorKind::Io) if the file system fails. After a failure at the very end, the file is the short file, and the next
    ///   write first makes the replacement durable.
    /// - [`StorageFull`](crate::ErrorKind::StorageFull) if the new file does not fit.
    /// - [`InUse`](crate::ErrorKind::InUse) if a different file has the path by now.
    pub async fn compact(&self) -> Result<CompactionReport> {
        self.backend.compact().await
    }

    /// Synchronizes the declared indexes with the database: creates missing indexes, reports differences, and drops indexes only
    /// on request. On a sharded cluster, shards the collections of models with a `shard_key`. Elsewhere, reports these
    /// collections.
    ///
    /// # Errors
    ///
    /// The errors of [`SyncIndexes`].
    pub fn sync_indexes(&self) -> SyncIndexes {
        SyncIndexes::new::<S>(self.session.access().backend())
    }

    /// Repairs the findings of [`check`](Session::check) that the schema determines. This is a dry run until
    /// [`apply`](crate::check::Repair::apply) is called.
    ///
    /// # Errors
    ///
    /// Errors of the backend. A finding that cannot be repaired is no error: see
    /// [`RepairOutcome::Impossible`](crate::check::RepairOutcome::Impossible).
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64, #[reference(on_delete = nullify)] like: Option<Ref<Part>> }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> odm::Result<()> {
    /// # let db = odm::Database::<Shop>::open("memory:").await?;
    /// # db.insert_many([Part { id: 1, like: None }, Part { id: 2, like: Some(Ref::new(1)) }]).await?;
    /// # let delete = odm::backend::operation::DeleteOperation {
    /// #     collection: "parts".into(), filter: odm::bson::rawdoc! { "_id": 1_i64 }, multi: false, origin: Default::default(),
    /// # };
    /// # db.backend().delete(delete).await?;
    /// println!("{}", db.repair().await?); // the planned repairs
    ///
    /// let report = db.repair().apply().await?;
    /// assert_eq!(
    ///     report.to_string(),
    ///     "parts 2, `like`: refers to 1 in parts, which does not exist\n  done: set the reference to null\n\
    ///      1 documents: 1 repaired, 0 can be repaired, 0 cannot"
    /// );
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn repair(&self) -> Repair<S> {
        Repair::new(self.session.access())
    }

    /// Returns the derived fields, such as copies, rollups and computed fields, that stored documents do not have in their
    /// current declaration. The field is new, or its declaration has changed. A complete [repair](Self::repair) fills the fields,
    /// and records the declaration in the database. [`open`](Self::open) logs a warning for each such field.
    ///
    /// # Errors
    ///
    /// Errors of a query, and of a write: without documents, this method records the current declaration.
    pub async fn backfills(&self) -> Result<Vec<Backfill>> {
        let access = self.session.access().for_operation("backfills", None);
        declared::find_backfills(&access, S::MODELS).await
    }

    /// Returns the lengths of each overflow array of each model, with the name of the model: see
    /// [`Arrays::lengths`](crate::action::Arrays::lengths).
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn array_lengths(&self) -> Result<Vec<(&'static str, Lengths)>> {
        let access = self.session.access().for_operation("array_lengths", None);
        let access = access.with_full_visibility();
        let mut lengths = Vec::new();
        for model in S::MODELS {
            for field in model.overflows {
                let measured = measure_lengths(&access, model, field.stored, Some(field));
                lengths.push((model.name, measured.await?));
            }
        }
        Ok(lengths)
    }

    /// Returns the number of documents of an older schema version, for each model with an `upgrade` function.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn outdated(&self) -> Result<Vec<(&'static str, u64)>> {
        let access = self.session.access().for_operation("outdated", None);
        let access = access.with_full_visibility();
        let mut outdated = Vec::new();
        for model in S::MODELS.iter().filter(|model| model.upgrade.is_some()) {
            let count = CountOperation {
                collection: model.collection.into(),
                filter: outdated_filter(model)?,
                limit: None,
                options: ReadOptions::default(),
            };
            outdated.push((model.name, access.count(model, count).await?));
        }
        Ok(outdated)
    }

    /// Upgrades the documents of older schema versions of all models, as [`upgrade`](Session::upgrade) does for one model. Returns the
    /// report of each model with an `upgrade` function.
    ///
    /// # Errors
    ///
    /// Errors of the backend. The reports list the documents that could not be upgraded, and all others are upgraded.
    pub async fn upgrade_all(&self) -> Result<Vec<(&'static str, UpgradeReport)>> {
        let access = self.session.access().for_operation("upgrade", None);
        let access = access.with_full_visibility();
        let mut reports = Vec::new();
        for model in S::MODELS.iter().filter(|model| model.upgrade.is_some()) {
            reports.push((model.name, upgrade_model(&access, model).await?));
        }
        Ok(reports)
    }

    /// Waits until no follow-up work of earlier writes is pending. Then every copy equals its source.
    ///
    /// # Errors
    ///
    /// [`StillPending`](crate::ErrorKind::StillPending) after the [timeout](WaitForPending::timeout), or once all remaining work is
    /// rejected: documents would be too large, break a validation rule of the server, or duplicate a key. The message names the
    /// rejecting documents.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "hosts")]
    /// # struct Host { #[serde(rename = "_id")] id: i64, ipaddr: String }
    /// # #[derive(Schema)] #[schema(models(Host))] struct Net;
    /// # async fn example(db: odm::Database<Net>) -> odm::Result<()> {
    /// db.update::<Host>(7).set(|h| h.ipaddr(), "10.0.0.7").await?;
    /// db.wait_for_pending().timeout(Duration::from_secs(5)).await?;
    /// db.wait_for_pending().of::<Host>(7).await?; // only the work of this document
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for_pending(&self) -> WaitForPending<S> {
        let access = self
            .session
            .access()
            .for_operation("wait_for_pending", None);
        WaitForPending::new(access.with_full_visibility())
    }

    /// Returns the pending work of earlier writes: the number of documents of each model, and the age of the oldest work.
    ///
    /// # Errors
    ///
    /// Errors of a query.
    pub async fn pending(&self) -> Result<PendingWork> {
        let access = self.session.access().for_operation("pending", None);
        read_pending_work(&access.with_full_visibility(), S::MODELS, None).await
    }

    /// Completes the pending work of processes that have died, and returns the number of documents.
    ///
    /// Fan-outs of copies, rollups of busy or missing parents, and changes of overflow arrays leave pending work. On a server
    /// without transactions, references and deletes leave pending work too. The documents record the work, and any process may
    /// complete the work after the [lease](DatabaseOptions::pending_lease). Call this method at the start of a process, and periodically.
    /// [`wait_for_pending`](Self::wait_for_pending) waits until no work is pending.
    ///
    /// Rejected work is tried again, too.
    ///
    /// # Errors
    ///
    /// - Errors of the backend.
    /// - The error of the first document with work that could not be completed, after all other work is complete.
    pub async fn run_pending(&self) -> Result<u64> {
        let access = self.session.access().for_operation("run_pending", None);
        let access = access.with_full_visibility();
        for model in S::MODELS {
            release_blocked(access.to(model)).await?;
        }
        let report = self.run_all_pending().await?;
        report.first_error.map_or(Ok(report.recovered), Err)
    }

    pub(crate) async fn run_all_pending(&self) -> Result<RecoveryReport> {
        let access = self.session.access().for_operation("run_pending", None);
        let access = access.with_full_visibility();
        let mut report = RecoveryReport::default();
        for model in S::MODELS {
            write::recover_abandoned(access.to(model), &mut report).await?;
        }
        Ok(report)
    }

    /// Completes the pending work of processes that have died, in a background task: now, and again after each `pause`, until the
    /// returned worker is dropped.
    ///
    /// Unlike [`run_pending`](Self::run_pending), the worker leaves rejected work until the pause of that work is over.
    ///
    /// Several processes can run a worker: each process records a lease in the document, and the others skip documents with a
    /// lease.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "hosts")]
    /// # struct Host { #[serde(rename = "_id")] id: i64 }
    /// # #[derive(Schema)] #[schema(models(Host))] struct Net;
    /// # async fn serve(db: &odm::Database<Net>) {}
    /// # async fn example(db: odm::Database<Net>) -> odm::Result<()> {
    /// let worker = db.spawn_worker(Duration::from_secs(5));
    /// serve(&db).await;
    /// println!("{} documents recovered, still pending: {}", worker.progress().documents, db.pending().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn_worker(&self, pause: Duration) -> Worker {
        let database = self.clone();
        Worker::start(pause, move || {
            let database = database.clone();
            async move { database.run_all_pending().await }
        })
    }

    /// Watches the changes of the documents of a model, by any process.
    ///
    /// Every change is returned once, in the order of the commits, and only after the change is durable, except for a write with
    /// [`Durability::Relaxed`]. A later watch can continue after the [token](crate::watch::ChangeStream::token) of a change without a gap.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) on a standalone MongoDB server, and the errors of [`Watch`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use odm::{ResumeToken, prelude::*};
    /// use odm::watch::Event;
    ///
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, title: String, author: String }
    /// # #[derive(Schema)] #[schema(models(Post))] struct Blog;
    /// # fn keep(token: ResumeToken) {}
    /// # async fn example(db: odm::Database<Blog>, kept: Option<ResumeToken>) -> odm::Result<()> {
    /// let mut changes = db.watch::<Post>().filter(|p| p.author().eq("alex")).after(kept).await?;
    /// while let Some(change) = changes.next().await {
    ///     let change = change?;
    ///     match change.event {
    ///         Event::Inserted(post) => println!("new: {}", post.title),
    ///         Event::Updated { document: Some(post), fields } if fields.contains(|p| p.title()) => {
    ///             println!("{} is called {} now", change.id, post.title);
    ///         }
    ///         Event::SoftDeleted { .. } | Event::Deleted => println!("{} is gone", change.id),
    ///         _ => {}
    ///     }
    ///     keep(change.token);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch<T: Document>(&self) -> Watch<T>
    where
        S: Contains<T>,
    {
        Watch::new(self.session.access().clone())
    }

    /// Watches the changes of the documents of all models without a scope, by any process, in one stream with one token.
    /// [`all_scopes`](Session::all_scopes) has the same method for all models.
    ///
    /// Every change is returned once, in the order of the commits over all models, and only after the change is durable, except for a
    /// write with [`Durability::Relaxed`].
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) on a standalone MongoDB server, and the errors of [`WatchAll`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use odm::{ResumeToken, prelude::*};
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "posts")]
    /// # struct Post { #[serde(rename = "_id")] id: i64, title: String }
    /// # #[derive(Debug, Serialize, Deserialize, Document)]
    /// # #[document(collection = "authors")]
    /// # struct Author { #[serde(rename = "_id")] id: String }
    /// # #[derive(Schema)] #[schema(models(Post, Author))] struct Blog;
    /// # fn keep(token: ResumeToken) {}
    /// # async fn example(db: odm::Database<Blog>, kept: Option<ResumeToken>) -> odm::Result<()> {
    /// let mut changes = db.watch_all().after(kept).await?;
    /// while let Some(change) = changes.next().await {
    ///     let change = change?;
    ///     if let Some(post) = change.of::<Post>()? {
    ///         println!("post {}: {:?}", post.id, post.event);
    ///     } else {
    ///         println!("{} {}", change.collection, change.id);
    ///     }
    ///     keep(change.token);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch_all(&self) -> WatchAll<S> {
        WatchAll::of_unscoped(self.session.access().clone())
    }

    /// Runs `work` in a transaction. Commits the transaction if `work` succeeds, and aborts it if `work` fails or is dropped.
    ///
    /// `work` is an `async` closure. The error has any type with `From<odm::Error>`: `?` works on operations, and the closure
    /// returns a decision of the application as an error of its own.
    ///
    /// After a [conflict](crate::Error::is_conflict) with another transaction, `work` runs again from the beginning, for up to
    /// one minute or the limit of [`timeout`](RunTransaction::timeout). So `work` must have no effects outside of `tx`. The retry
    /// does not depend on the type of the error: an error of `work` is retried if an operation of `tx` had a conflict.
    /// Conflicting transactions of a process over the same collection run in turn, first come, first served. Between processes,
    /// random pauses grow up to a quarter of a second.
    ///
    /// Inside, use `tx` instead of the database. A read through the database does not see the snapshot of the transaction. A
    /// write or a transaction through the database is an error of kind
    /// [`OutsideTransaction`](crate::ErrorKind::OutsideTransaction). Run an independent write in a task of its own.
    ///
    /// # Errors
    ///
    /// - The error of `work`.
    /// - [`Conflict`](crate::ErrorKind::Conflict) if the transaction conflicts for a minute.
    /// - [`Timeout`](crate::ErrorKind::Timeout) after the limit of `timeout`.
    /// - [`TransactionExpired`](crate::ErrorKind::TransactionExpired), without a second attempt, if the transaction is open for
    ///   longer than the server allows: a minute by default on MongoDB. The engine has no such limit.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) on a standalone MongoDB server.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "accounts")]
    /// # struct Account { #[serde(rename = "_id")] id: String, credits: i64 }
    /// # #[derive(Schema)] #[schema(models(Account))] struct Bank;
    /// #[derive(Debug, PartialEq)]
    /// enum ApiError { TooPoor { credits: i64 }, Database(String) }
    /// impl From<odm::Error> for ApiError {
    ///     fn from(error: odm::Error) -> Self { Self::Database(error.to_string()) }
    /// }
    ///
    /// async fn pay(db: &odm::Database<Bank>, from: &str, to: &str, price: i64) -> Result<i64, ApiError> {
    ///     db.transaction(async |tx| {
    ///         let credits = tx.get::<Account>(from).await?.credits;
    ///         if credits < price {
    ///             return Err(ApiError::TooPoor { credits }); // aborts the transaction
    ///         }
    ///         tx.update::<Account>(from).inc(|a| a.credits(), -price).await?;
    ///         tx.update::<Account>(to).inc(|a| a.credits(), price).await?;
    ///         Ok(credits - price)
    ///     })
    ///     .await
    /// }
    ///
    /// # #[cfg(feature = "engine")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), ApiError> {
    /// # let db = odm::Database::<Bank>::open("memory:").await?;
    /// # db.insert_many([("jane", 8), ("joe", 0)].map(|(id, credits)| Account { id: id.into(), credits })).await?;
    /// assert_eq!(pay(&db, "jane", "joe", 5).await, Ok(3));
    /// assert_eq!(pay(&db, "jane", "joe", 5).await, Err(ApiError::TooPoor { credits: 3 }));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    ///
    /// If neither `work` nor the use of the result tells the type of the error, the closure names its result:
    /// `async |tx| -> Result<(), ApiError> { … }`.
    pub fn transaction<'w, T, E, W, F>(&self, work: W) -> RunTransaction<'w, T, E>
    where
        W: FnMut(Transaction<S>) -> F + Send + 'w,
        F: Future<Output = Result<T, E>> + Send + 'w,
        T: Send + 'w,
        E: TransactionError + Send + 'w,
    {
        RunTransaction::new(self.session.clone(), work)
    }
}

impl<S> Deref for Database<S> {
    type Target = Session<S>;
    fn deref(&self) -> &Session<S> {
        &self.session
    }
}

/// For functions on whole databases, such as [`copy`](crate::copy).
impl<S> AsRef<dyn Backend> for Database<S> {
    fn as_ref(&self) -> &(dyn Backend + 'static) {
        &*self.backend
    }
}

impl<S> Clone for Database<S> {
    fn clone(&self) -> Self {
        Self {
            backend: self.backend.clone(),
            session: self.session.clone(),
        }
    }
}

impl<S> fmt::Debug for Database<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.backend).finish()
    }
}
