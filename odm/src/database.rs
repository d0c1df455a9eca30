//! A database with the models of a schema.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use crate::{
    Result,
    access::Access,
    backend::{self, Backend},
    check::{Backfill, Repair, declared},
    document::Document,
    maintain,
    schema::{Contains, Schema, SyncIndexes},
    session::Session,
    settled::{Owed, Settled, Worker, owed},
    transaction::{RunTransaction, Transaction},
    watch::Watch,
};

/// A database with the models of the schema `S`: cheap to clone, safe to share.
///
/// The typed operations are those of [`Session`], to which it leads by deref. They run on the caller's Tokio runtime,
/// which needs its timers enabled; polled outside of one, by another executor, they run on a runtime of the library's own, with one
/// thread that starts with the first of them.
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
    /// Opens the database that a URL names: `odm:path/to/file` or `memory:` for the embedded engine,
    /// `mongodb://host/database` for a server.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](crate::ErrorKind::InvalidUrl), [`Connection`](crate::ErrorKind::Connection) if the server does not
    /// answer, [`InUse`](crate::ErrorKind::InUse) and [`Damaged`](crate::ErrorKind::Damaged) for files.
    pub async fn open(url: impl AsRef<str>) -> Result<Self> {
        let database = Self::with_backend(backend::open(url.as_ref()).await?);
        // Who may not read it may still read something else.
        for backfill in database.backfills().await.unwrap_or_default() {
            tracing::warn!(target: "odm", model = backfill.model, "{backfill}");
        }
        Ok(database)
    }

    /// A database on this backend: one opened before, or a wrapper such as a [`Recorder`](backend::Recorder).
    pub fn with_backend(backend: Arc<dyn Backend>) -> Self {
        Self {
            session: Session::new(Access::of_database::<S>(backend.clone())),
            backend,
        }
    }

    /// The backend, for what the typed language does not have. Writes made there go around the framework.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Closes the database for all its handles, with its files or its connections: what they do from now on, also in
    /// transactions and streams, is an error of kind [`Closed`](crate::ErrorKind::Closed). Writes that are under way are
    /// done first. Background work ends at its next step; what is left of it stays pending in the database, as when a
    /// process ends ([`settled`](Self::settled) waits for it). Closing again does nothing.
    ///
    /// A file is closed as well when the last handle is dropped, with the actions, streams and transactions that were made
    /// of it; this says when that is done.
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
    /// Those of the backend.
    pub async fn close(&self) -> Result<()> {
        self.backend.close().await
    }

    /// Brings the declared indexes to the database: creates what is missing, reports what differs, and drops only what
    /// it is told to. On a sharded cluster it shards the collections of the models with a `shard_key`; elsewhere it reports them.
    pub fn sync_indexes(&self) -> SyncIndexes {
        SyncIndexes::new::<S>(self.backend.clone())
    }

    /// Mends what [`check`](Session::check) finds and the schema knows how to: a dry run unless it is told to
    /// [`apply`](crate::check::Repair::apply) it.
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
    /// # let around = odm::backend::operation::Delete {
    /// #     collection: "parts".into(), filter: odm::bson::rawdoc! { "_id": 1_i64 }, multi: false,
    /// # };
    /// # db.backend().delete(around).await?;
    /// println!("{}", db.repair().await?);         // what it would do
    ///
    /// let report = db.repair().apply().await?;
    /// assert_eq!(
    ///     report.to_string(),
    ///     "parts 2, `like`: refers to 1 of parts, which is not there\n  done: the reference becomes null\n\
    ///      1 documents: 1 mended, 0 can be mended, 0 cannot"
    /// );
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "engine"))]
    /// # fn main() {}
    /// ```
    pub fn repair(&self) -> Repair<S> {
        Repair::new(self.session.access())
    }

    /// The derived fields, copies, counts and what is computed, that stored documents were not made for: they are new, or declared
    /// otherwise than when the documents were written. A [repair](Self::repair) that comes to its end makes them so, and keeps that in the
    /// database. [`open`](Self::open) asks this and tells of it by a warning.
    ///
    /// # Errors
    ///
    /// Those of a query, and of a write: where there are no documents yet it keeps what is declared.
    pub async fn backfills(&self) -> Result<Vec<Backfill>> {
        let access = self.session.access().operation("backfills", None);
        declared::backfills(&access, S::MODELS).await
    }

    /// Waits until no follow-up work of earlier writes is pending: until every copy equals its source.
    ///
    /// Returns an error of kind [`Unsettled`](crate::ErrorKind::Unsettled) once all remaining work is rejected: documents would be too
    /// large, break a validation rule of the server, or duplicate a key. The message names the rejecting documents.
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
    /// db.settled().within(Duration::from_secs(5)).await?;
    /// db.settled().of::<Host>(7).await?; // only what is copied from this one
    /// # Ok(())
    /// # }
    /// ```
    pub fn settled(&self) -> Settled<S> {
        let access = self.session.access().operation("settled", None);
        Settled::new(access.to_everything())
    }

    /// What writes owe that is not carried out yet: of how many documents of each model, and for how long.
    ///
    /// # Errors
    ///
    /// Those of a query.
    pub async fn owed(&self) -> Result<Owed> {
        let access = self.session.access().operation("owed", None);
        owed(&access.to_everything(), S::MODELS, None).await
    }

    /// Finishes what writes have begun and could not finish, because their process died, and gives the number of documents.
    ///
    /// Fan-outs of copies leave such work. References do on a server without transactions, and so does a delete of more than 10,000
    /// documents. The documents record the work, and any process may finish it after five seconds. Call this at the start of a
    /// process, and periodically. [`settled`](Self::settled) waits until no work is pending.
    ///
    /// Rejected work is tried again too: see [`OwedOf::rejections`](crate::settled::OwedOf::rejections).
    ///
    /// # Errors
    ///
    /// Those of the backend; and, once all else is finished, that of the first document that could not be.
    pub async fn settle(&self) -> Result<u64> {
        let access = self.session.access().operation("settle", None);
        let access = access.to_everything();
        for model in S::MODELS {
            maintain::unblock(&access, model).await?;
        }
        let settled = self.settle_all().await?;
        settled.failed.map_or(Ok(settled.documents), Err)
    }

    pub(crate) async fn settle_all(&self) -> Result<maintain::Finished> {
        let access = self.session.access().operation("settle", None);
        let access = access.to_everything();
        let mut settled = maintain::Finished::default();
        for model in S::MODELS {
            maintain::settle(&access, model, &mut settled).await?;
        }
        Ok(settled)
    }

    /// The same in a task of its own, at once and with this pause behind each time, until what is given back is dropped.
    ///
    /// Several processes may do so: what one of them is at, it says in the document, and the others leave it alone.
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
    /// let worker = db.settle_every(Duration::from_secs(5));
    /// serve(&db).await;
    /// println!("{} were left by others; left now: {}", worker.progress().documents, db.owed().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn settle_every(&self, pause: Duration) -> Worker {
        let database = self.clone();
        Worker::start(pause, move || {
            let database = database.clone();
            async move { database.settle_all().await }
        })
    }

    /// Follows the changes of the documents of a model, whoever makes them.
    ///
    /// Every change is told once, in the order of the commits; one that was told is durable. Whoever keeps the
    /// [token](crate::watch::Changes::token) can go on behind it later, and misses nothing.
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

    /// Runs `work` in a transaction: commits it when `work` succeeds, aborts it when `work` fails or is dropped.
    ///
    /// When another transaction came first (a [conflict](crate::Error::is_conflict)), `work` runs again from its beginning, for a
    /// minute or for as long as [`timeout`](RunTransaction::timeout) says. So it must have no effects of its own outside of `tx`.
    /// Conflicting transactions of one process over one collection run one after the other, first come, first served. Between
    /// processes, random pauses grow up to a quarter of a second.
    ///
    /// Inside, use `tx` and not the database: what is read through the database is not of the transaction's snapshot, and a write
    /// through it is an error of kind [`OutsideTransaction`](crate::ErrorKind::OutsideTransaction), as is a transaction inside of
    /// another. What is to be apart goes into a task of its own.
    ///
    /// # Errors
    ///
    /// - That of `work`.
    /// - [`Conflict`](crate::ErrorKind::Conflict) if the transaction conflicts for a minute.
    /// - [`Timeout`](crate::ErrorKind::Timeout) after the limit of `timeout`.
    /// - [`TransactionExpired`](crate::ErrorKind::TransactionExpired), without a second attempt, if the transaction is open for longer
    ///   than the server allows: a minute by default on MongoDB. The engine has no such limit.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) on a standalone MongoDB server.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "accounts")]
    /// # struct Account { #[serde(rename = "_id")] id: String, credits: i64 }
    /// # #[derive(Schema)] #[schema(models(Account))] struct Bank;
    /// # async fn example(db: odm::Database<Bank>) -> odm::Result<()> {
    /// db.transaction(|tx| async move {
    ///     tx.update::<Account>("jane").when(|a| a.credits().gte(5)).inc(|a| a.credits(), -5).await?.expect_applied()?;
    ///     tx.update::<Account>("joe").inc(|a| a.credits(), 5).await?;
    ///     Ok(())
    /// }).await
    /// # }
    /// ```
    pub fn transaction<'w, T, W, F>(&self, work: W) -> RunTransaction<'w, T>
    where
        W: FnMut(Transaction<S>) -> F + Send + 'w,
        F: Future<Output = Result<T>> + Send + 'w,
        T: Send + 'w,
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
