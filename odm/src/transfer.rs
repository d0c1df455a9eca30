//! Copies of whole databases, between backends of any kind: see [`copy`].

mod changes;
mod definitions;
mod documents;
mod finish;
mod open;
mod report;
mod walk;

use std::{
    collections::BTreeSet,
    fmt,
    pin::Pin,
    time::{Duration, Instant},
};

use bson::{Bson, RawDocumentBuf};

pub use report::{CopiedCollection, CopyPlan, CopyProgress, CopyReport, CopyStage};

use crate::{
    Error, ErrorKind, Result,
    backend::{Backend, BoxFuture},
    error,
    metadata::transfer::{CopyState, Pass},
};
use changes::SourceChanges;

/// Copies a whole database: all collections with their options and indexes, documents, metadata, sequences and pending work.
///
/// The databases can be of any kind: an embedded file to MongoDB, MongoDB to a file, or two databases of a kind. The models of the
/// application play no role, so the arguments are [databases](crate::Database) or [backends](Backend). The target must be empty.
///
/// ```
/// use odm::backend;
///
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// let from = backend::open("memory:").await?; // or "odm:./shop.odm"
/// let to = backend::open("memory:").await?; // or "mongodb://localhost/shop?replicaSet=rs0"
/// # use odm::backend::operation::InsertOperation;
/// # let documents = vec![odm::bson::rawdoc! { "_id": 1 }, odm::bson::rawdoc! { "_id": "b" }];
/// # from.insert(InsertOperation { collection: "parts".into(), documents, ordered: true, origin: Default::default() }).await?;
/// let report = odm::copy(&from, &to).on_progress(|progress| println!("{progress}")).await?;
/// assert_eq!(report.to_string(), "parts: 2 documents, 0 indexes");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
///
/// # Writers
///
/// The source can be written during the copy. A change stream delivers the changes, and the target has the state of the source at
/// one moment near the end of the copy. Later writes are not in the target: for a move without a loss, stop the writers and end
/// the copy by [`follow_until`](CopyDatabase::follow_until). Without change streams (on a standalone MongoDB server), stop the
/// writers first, and call [`quiescent`](CopyDatabase::quiescent).
///
/// Do not use the target before the copy has returned.
///
/// # A second attempt
///
/// The target records the progress of the copy. After an error or a crash, the same call continues. If the source has discarded
/// the changes since then, the call compares all documents again.
///
/// # Verification
///
/// After the copy, a second pass compares each document of the source with the target, byte for byte, and finds documents that only
/// the target has. A difference without a change of the source is an error of kind [`CopyDiffers`](crate::ErrorKind::CopyDiffers).
///
/// # Errors
///
/// - [`TargetNotEmpty`](crate::ErrorKind::TargetNotEmpty) if the target has collections of the application and no unfinished copy.
/// - [`Unsupported`](crate::ErrorKind::Unsupported) for
///   - a source without change streams, unless the copy is [`quiescent`](CopyDatabase::quiescent),
///   - an option or an index that the target cannot store (see [`skip_unsupported`](CopyDatabase::skip_unsupported)),
///   - a sharded collection with a shard key other than `_id`,
///   - ids without an order (code and regular expressions),
///   - a capped collection, unless the copy is [`quiescent`](CopyDatabase::quiescent),
///   - a collection that is renamed during the copy.
/// - [`CopyDiffers`](crate::ErrorKind::CopyDiffers) if the verification fails.
/// - [`Conflict`](crate::ErrorKind::Conflict) if a second process continues the copy.
/// - Errors of both backends.
pub fn copy<'a>(
    from: &'a impl AsRef<dyn Backend>,
    to: &'a impl AsRef<dyn Backend>,
) -> CopyDatabase<'a> {
    CopyDatabase {
        from: from.as_ref(),
        to: to.as_ref(),
        progress: None,
        until: None,
        is_quiescent: false,
        skips_unsupported: false,
        restarts: false,
    }
}

/// Inserts documents, byte for byte. A plain insert into MongoDB replaces a timestamp of 0 at the top level of a document by the time of
/// the server.
///
/// # Errors
///
/// [`DuplicateKey`](crate::ErrorKind::DuplicateKey) if the target has an `_id` already, and errors of the backend. Other documents may
/// be stored then.
pub async fn insert_verbatim(
    to: &impl AsRef<dyn Backend>,
    collection: &str,
    documents: Vec<RawDocumentBuf>,
) -> Result<()> {
    let existing = documents::insert(to.as_ref(), collection, documents).await?;
    match existing.into_values().next() {
        None => Ok(()),
        Some(id) => {
            let error = Error::new(ErrorKind::DuplicateKey, "another document has the same key");
            let id = Bson::try_from(id).map_err(error::from_bson)?;
            Err(error.with_collection(collection).with_id(id))
        }
    }
}

/// A copy of a database; made by [`copy`]. Awaiting the value runs the copy.
#[must_use = "a copy starts when this value is awaited"]
pub struct CopyDatabase<'a> {
    from: &'a dyn Backend,
    to: &'a dyn Backend,
    progress: Option<ProgressCallback<'a>>,
    until: Option<BoxFuture<'a, ()>>,
    is_quiescent: bool,
    skips_unsupported: bool,
    restarts: bool,
}

type ProgressCallback<'a> = Box<dyn FnMut(&CopyProgress) + Send + 'a>;

impl<'a> CopyDatabase<'a> {
    /// Copies without a change stream, and writes nothing into the source. Stop all writers of the source until a copy has
    /// succeeded. After a write between two attempts, call [`restart`](Self::restart).
    ///
    /// A source without change streams needs this call. A write meanwhile can be missing in the target, or is an
    /// error of kind [`CopyDiffers`](crate::ErrorKind::CopyDiffers).
    pub fn quiescent(mut self) -> Self {
        self.is_quiescent = true;
        self
    }

    /// Follows the changes of the source until `end` is ready. Then the copy finishes with the state of that moment.
    ///
    /// For a move without a loss and with a short interruption: follow the source, stop the writers, let `end` become ready, and
    /// start the application on the target when the copy has returned.
    ///
    /// ```
    /// # use odm::prelude::*;
    /// # #[derive(Serialize, Deserialize, Document)]
    /// # #[document(collection = "parts")]
    /// # struct Part { #[serde(rename = "_id")] id: i64 }
    /// # #[derive(Schema)] #[schema(models(Part))] struct Shop;
    /// # type Db = odm::Database<Shop>;
    /// # async fn stop_writers() {}
    /// # async fn example(db: Db) -> odm::Result<()> {
    /// let server = odm::backend::open("mongodb://localhost/shop?replicaSet=rs0").await?;
    /// let (writers_stopped, end) = tokio::sync::oneshot::channel::<()>();
    /// let copy = odm::copy(&db, &server).follow_until(async { drop(end.await) });
    /// # let operator = async { stop_writers().await; drop(writers_stopped.send(())); };
    /// let (report, ()) = tokio::join!(copy, operator); // `operator` stops the writers, and sends to `writers_stopped`
    /// println!("{}", report?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow_until(mut self, end: impl Future<Output = ()> + Send + 'a) -> Self {
        self.until = Some(Box::pin(end));
        self
    }

    /// Leaves out the options, indexes and views that the target cannot store. [`CopyReport::skipped`] lists them.
    pub fn skip_unsupported(mut self) -> Self {
        self.skips_unsupported = true;
        self
    }

    /// Discards an unfinished copy in the target: drops all collections of the target, and starts at the beginning.
    ///
    /// A target without an unfinished copy must be empty, as without this call.
    pub fn restart(mut self) -> Self {
        self.restarts = true;
        self
    }

    /// Calls `callback` after each batch of documents.
    pub fn on_progress(mut self, callback: impl FnMut(&CopyProgress) + Send + 'a) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// Checks the source and the target as the copy does before its first write, and returns the collections to copy. Writes
    /// nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`copy`] before its first write.
    pub async fn plan(self) -> Result<CopyPlan> {
        let restarts = self.restarts;
        let mut transfer = self.into_transfer();
        let (definitions, state) = transfer.check(restarts).await?;
        let mut collections = Vec::new();
        for definition in definitions::collections(&definitions) {
            collections.push(CopiedCollection {
                documents: documents::count(transfer.from, &definition.name).await?,
                indexes: definition.indexes.len(),
                name: definition.name.clone(),
            });
        }
        Ok(CopyPlan {
            collections,
            skipped: transfer.skipped.into_iter().collect(),
            continues: state.is_some() && !restarts,
        })
    }

    async fn run(self) -> Result<CopyReport> {
        let restarts = self.restarts;
        let mut transfer = self.into_transfer();
        transfer.open(restarts).await?;
        if transfer.state.pass == Pass::Copy {
            transfer.drop_earlier_definitions().await?;
            transfer.walk(CopyStage::Copy).await?;
            transfer.create_plain_indexes().await?;
            transfer.begin_pass(Pass::Verify).await?;
        }
        if transfer.state.pass == Pass::Verify {
            transfer.walk(CopyStage::Verify).await?;
            transfer.follow().await?;
            transfer.reach_snapshot().await?;
            transfer.begin_pass(Pass::Finish).await?;
        }
        transfer.finish().await
    }

    fn into_transfer(self) -> Transfer<'a> {
        Transfer {
            from: self.from,
            to: self.to,
            callback: self.progress,
            until: self.until,
            is_quiescent: self.is_quiescent,
            skips_unsupported: self.skips_unsupported,
            state: CopyState::new(),
            changes: None,
            created: BTreeSet::new(),
            skipped: BTreeSet::new(),
            progress: CopyProgress::default(),
            last_catch_up: Instant::now(),
        }
    }
}

impl<'a> IntoFuture for CopyDatabase<'a> {
    type Output = Result<CopyReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for CopyDatabase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyDatabase")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// The time between two reads of the changes of the source. A source keeps a limited history of changes.
const CATCH_UP_INTERVAL: Duration = Duration::from_millis(250);

/// A running copy.
struct Transfer<'a> {
    from: &'a dyn Backend,
    to: &'a dyn Backend,
    callback: Option<ProgressCallback<'a>>,
    until: Option<BoxFuture<'a, ()>>,
    is_quiescent: bool,
    skips_unsupported: bool,
    /// The recorded state, after [`open`](Self::open).
    state: CopyState,
    /// The changes of the source. `None` for a quiescent source.
    changes: Option<SourceChanges<'a>>,
    /// The collections that the copy has created in the target with the options of the source.
    created: BTreeSet<String>,
    /// Options, indexes and views that the target does not have.
    skipped: BTreeSet<String>,
    progress: CopyProgress,
    last_catch_up: Instant,
}
