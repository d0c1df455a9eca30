//! The stages of a write, in order.
//!
//! Each kind of derived data implements [`Maintainer`]. The kinds do not know each other: a write passes from one kind to the
//! next through [`Next`], and a delete or a removed reference reaches the other kinds as an event.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, doc};

use super::{
    Footprint, SourceCache, WriteOperation, WriteOutcome,
    arrays::{ArrayDeletes, Arrays},
    computed::ComputedFields,
    copies::{Copies, ElementSnapshots},
    references::References,
    rollups::Rollups,
    sequence,
    trees::Trees,
};
use crate::{
    Result,
    backend::{
        BoxFuture,
        operation::{DocumentChange, Index, Stage},
    },
    metadata::{copy::SOURCE_VERSION, references::tombstone},
    pending::{
        expired::RecoveryReport,
        record::{PendingKind, PendingToken},
    },
    schema::{Model, OverflowField},
    session::access::{Access, ModelAccess},
};

/// All stages, from the first to the last.
///
/// - Snapshots in elements are filled before an array moves elements to chunks, because chunks are written as they are.
/// - The check of a tree comes after copies: copies open the transaction, and repeat the write without the fan-out if a dependent
///   rejects its copy.
/// - Copies come before rollups and computed fields, because a copy can be an input of both.
/// - Rollups come before references: a transaction then writes the parent before the child.
/// - References come after arrays: the reference stage reads the resident elements of the write.
/// - The chunks of deleted documents come after references, because a delete rule reads references in chunks.
/// - Computed fields come last. The stages before read update operators, and a pipeline has no operators.
pub(super) static MAINTAINERS: [&dyn Maintainer; 8] = [
    &ElementSnapshots,
    &Arrays,
    &Copies,
    &Trees,
    &Rollups,
    &References,
    &ArrayDeletes,
    &ComputedFields,
];

/// The maximum number of documents that a delete removes in one transaction. Every server limits the size of a transaction.
pub(super) const MAX_TRANSACTION_DELETES: usize = 10_000;

/// The future of a write.
pub(super) type WriteFuture = BoxFuture<'static, Result<WriteOutcome>>;

/// A model with indexes that the model needs.
pub(super) type DeclaredIndexes = (&'static Model, Vec<Index>);

/// A kind of derived data, or one of its stages.
pub(super) trait Maintainer: fmt::Debug + Sync {
    /// Returns the stage that origins name.
    fn stage(&self) -> Stage;

    /// Whether a write can affect the kind. Nothing else of the kind runs for a write that cannot.
    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool;

    /// Returns why a write affects the kind, one sentence for each reason.
    fn reasons(&self, _access: ModelAccess<'_>, _footprint: &Footprint<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Runs a write that affects the kind: additions to the write, the stages after this stage, and the follow-up writes.
    fn run(&'static self, cx: WriteContext, write: WriteOperation) -> WriteFuture;

    /// Returns a path where an update may add a reference to a document in a scope of its own.
    fn path_of_new_reference(
        &self,
        _model: &'static Model,
        _update: &RawDocument,
    ) -> Option<String> {
        None
    }

    /// Checks a change of references without transactions, after the intent record announces the new references by path.
    ///
    /// A [`Conflict`](crate::ErrorKind::Conflict) runs the check again, after a pause and after the recovery of abandoned writes.
    fn check_intent<'a>(
        &'a self,
        _access: ModelAccess<'a>,
        _id: &'a RawBson,
        _new_ids: &'a RawDocument,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the paths that a save must not change.
    fn managed_paths(&self, _model: &'static Model) -> Vec<String> {
        Vec::new()
    }

    /// Returns the derived fields of a model by stored path, each with a description of the declaration. A changed description
    /// asks for a backfill.
    fn declarations(&self, _model: &'static Model) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Adds the indexes that the kind needs to the declared indexes of all models.
    fn add_indexes(&self, _models: &[&'static Model], _declared: &mut Vec<DeclaredIndexes>) {}

    /// Returns the kinds of pending work that documents of a model can have.
    fn pending_kinds(&self, _access: ModelAccess<'_>) -> Vec<(&'static Model, PendingKind)> {
        Vec::new()
    }

    /// Recovers the abandoned pending work of a model. A failure in one document does not stop the recovery of the rest.
    fn recover<'a>(
        &'a self,
        _access: ModelAccess<'a>,
        _report: &'a mut RecoveryReport,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns what a delete of documents of a model must do for the kind.
    fn delete_follow_up(
        &self,
        _models: &[&'static Model],
        _model: &'static Model,
    ) -> DeleteFollowUp {
        DeleteFollowUp::None
    }

    /// Reads what the kind needs of documents before a transaction deletes the documents. Returns the work after the delete.
    fn before_delete<'a>(
        &'a self,
        _full_access: ModelAccess<'a>,
        _ids: &'a [RawBson],
    ) -> BoxFuture<'a, Result<Option<AfterDelete>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Deletes the parts of documents in other collections, before the documents are deleted.
    fn delete_parts<'a>(
        &'a self,
        _full_access: ModelAccess<'a>,
        _filter: &'a RawDocument,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Removes the values of deleted documents from other documents.
    ///
    /// `version` is higher than every version of the deleted documents, and lower than the version of a later document with the
    /// same `_id`.
    fn clear_deleted<'a>(
        &'a self,
        _full_access: ModelAccess<'a>,
        _deleted: &'a [DeletedDocument<'a>],
        _version: i64,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Adds fields to the update that makes a tombstone final.
    fn mark_tombstone(&self, _access: ModelAccess<'_>, _set: &mut RawDocumentBuf) -> Result<()> {
        Ok(())
    }

    /// Removes the values of a document with a final tombstone from other documents, before the document is deleted.
    fn finish_tombstone<'a>(
        &'a self,
        _access: ModelAccess<'a>,
        _id: &'a RawBson,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Adds to an update that removes references to deleted documents.
    fn extend_detach(
        &self,
        _access: ModelAccess<'_>,
        _change: &mut DocumentChange,
    ) -> Result<Detach> {
        Ok(Detach::default())
    }

    /// Whether the kind depends on the elements of an overflow array. `adds` says that a write adds elements.
    fn depends_on_elements(
        &self,
        _model: &'static Model,
        _array: &OverflowField,
        _adds: bool,
    ) -> bool {
        false
    }

    /// Runs an update of an array that the kind depends on, with the follow-up writes. Returns `None` if no document with the id
    /// matches the filter of the write.
    fn write_elements<'a>(
        &'a self,
        update: ElementUpdate<'a>,
    ) -> BoxFuture<'a, Result<Option<WriteOutcome>>> {
        Box::pin(async move {
            let run = (update.run)(update.cx.clone(), update.write.clone());
            run.await.map(Some)
        })
    }

    /// Handles elements that a transaction has inserted into chunks, together with a new document.
    fn elements_inserted<'a>(
        &'a self,
        _access: ModelAccess<'a>,
        _array: &'static OverflowField,
        _owner: &'a Bson,
        _elements: Vec<&'a Bson>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Completes a pending change of elements in the document, so that all elements agree.
    fn complete_element_change<'a>(
        &'a self,
        _access: ModelAccess<'a>,
        _array: &'static OverflowField,
        _id: &'a RawBson,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What the stages of a write share beside the operation.
#[derive(Debug, Clone)]
pub(super) struct WriteContext {
    pub(super) access: Access,
    pub(super) model: &'static Model,
    /// Source documents of copies that were read before the write.
    pub(super) sources: SourceCache,
    /// The revalidation that the new documents record. A later stage can confirm the sources instead.
    pub(super) revalidation: Option<Revalidation>,
    /// The record in the update that only a change of certain fields needs.
    pub(super) conditional_record: Option<ConditionalRecord>,
    /// Whether an intent record covers the references of the write.
    pub(super) has_intent: bool,
    /// Whether the write is part of a soft delete or a restore that already covers all documents that it reaches.
    pub(super) is_cascaded: bool,
    pub(super) strategy: Strategy,
    /// The stages after the current stage.
    pub(super) next: Next,
}

impl WriteContext {
    pub(super) fn new(access: Access, model: &'static Model, sources: SourceCache) -> Self {
        let strategy = match access.has_transactions() {
            true => Strategy::Transactional,
            false => Strategy::Standalone,
        };
        Self {
            access,
            model,
            sources,
            revalidation: None,
            conditional_record: None,
            has_intent: false,
            is_cascaded: false,
            strategy,
            next: Next::all(),
        }
    }

    /// Returns the context of a follow-up write, which runs all stages, also the references. A write of references by the reference
    /// stage itself takes [`after_references`](Self::after_references).
    pub(super) fn of_follow_up(access: ModelAccess<'_>) -> Self {
        Self::new(Access::clone(&access), access.model, SourceCache::default())
    }

    /// Returns the context of a write of references by the reference stage itself.
    pub(super) fn after_references(access: ModelAccess<'_>) -> Self {
        Self {
            next: Next::after_references(),
            ..Self::of_follow_up(access)
        }
    }

    /// Returns the context of a write of cascaded documents by a soft delete or a restore.
    pub(super) fn within_cascade(self) -> Self {
        Self {
            is_cascaded: true,
            ..self
        }
    }

    /// Returns the same context in a transaction.
    pub(super) fn with_access(&self, access: &Access) -> Self {
        Self {
            access: access.clone(),
            ..self.clone()
        }
    }

    /// Runs a write through the stages after the current stage.
    pub(super) fn run_next(self, write: WriteOperation) -> WriteFuture {
        self.next.run(self, write)
    }

    /// Returns the context of a write that an intent record covers.
    pub(super) fn with_intent(self) -> Self {
        Self {
            has_intent: true,
            ..self
        }
    }
}

/// How a write and its follow-up writes become atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// A transaction contains the write and the follow-up writes.
    Transactional,
    /// On a standalone server, a document first records the follow-up work, so that any process can finish the work.
    Standalone,
    /// A delete writes tombstones first, also with transactions: concurrent work must see that the documents will be gone.
    TwoPhase,
}

/// The stages after a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next(&'static [&'static dyn Maintainer]);

impl Next {
    /// Returns all stages.
    pub(super) fn all() -> Self {
        Self(&MAINTAINERS)
    }

    /// Returns the stages after the references.
    fn after_references() -> Self {
        let mut stages = MAINTAINERS.as_slice();
        while let [stage, later @ ..] = stages {
            stages = later;
            if stage.stage() == Stage::REFERENCES {
                break;
            }
        }
        Self(stages)
    }

    /// Returns the stages before the computed fields. A bulk write can contain a write that affects none of them.
    pub(super) fn before_computed() -> Self {
        Self(MAINTAINERS.split_last().map_or(&[], |(_, before)| before))
    }

    /// Whether one of the stages is affected by a write.
    pub(super) fn is_affected(self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        self.0.iter().any(|stage| stage.is_affected(cx, footprint))
    }

    /// Whether one of the stages deletes documents that other documents refer to. Such a stage reports the deleted documents to the
    /// other kinds.
    pub(super) fn deletes_referenced(self, cx: &WriteContext) -> bool {
        let mut stages = self.0.iter();
        stages.any(|stage| {
            stage.stage() == Stage::REFERENCES && stage.is_affected(cx, &Footprint::Removes)
        })
    }

    /// Runs a write through the affected stages, and then at the backend.
    pub(super) fn run(self, cx: WriteContext, write: WriteOperation) -> WriteFuture {
        let mut stages = self.0;
        while let [stage, later @ ..] = stages {
            stages = later;
            if stage.is_affected(&cx, &write.footprint()) {
                return stage.run(
                    WriteContext {
                        next: Self(stages),
                        ..cx
                    },
                    write,
                );
            }
        }
        Box::pin(async move { write.send(cx.access.to(cx.model)).await })
    }
}

/// Copied sources that may have changed since the read, with the record that asks for a comparison.
#[derive(Debug, Clone)]
pub(super) struct Revalidation {
    pub(super) token: PendingToken,
    pub(super) sources: Arc<[CopiedSource]>,
}

/// A source with the version that was copied.
#[derive(Debug, Clone)]
pub(super) struct CopiedSource {
    pub(super) model: &'static Model,
    pub(super) id: Bson,
    /// `None` if the source did not exist.
    pub(super) version: Option<i64>,
    pub(super) rollup_version: Option<Bson>,
}

impl CopiedSource {
    /// Returns the condition that the source was not changed or deleted since the read; `None` if the source did not exist.
    pub(super) fn unchanged_since_read(&self) -> Option<Document> {
        let version = match self.version? {
            // A source has no version until the first change.
            0 => doc! { "$exists": false },
            version => doc! { "$eq": version },
        };
        Some(doc! { SOURCE_VERSION: version, tombstone::TOKEN: { "$exists": false } })
    }
}

/// A record in an update that is only necessary if one of the paths gets another value. An update pipeline can compare the values.
#[derive(Debug, Clone)]
pub(super) struct ConditionalRecord {
    /// The stored paths.
    pub(super) paths: Vec<String>,
    /// The operators and paths that write the record.
    pub(super) marks: [(&'static str, &'static str); 2],
}

/// What a delete must do for a kind of derived data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeleteFollowUp {
    None,
    /// Follow-up writes that the transaction of the delete contains. Without transactions, a tombstone must precede them.
    WithinTransaction,
    /// Follow-up writes on documents that refer to the deleted documents.
    OnReferrers,
}

impl DeleteFollowUp {
    /// Returns what a delete of documents of a model must do for all kinds.
    pub(super) fn of_model(models: &[&'static Model], model: &'static Model) -> Self {
        let kinds = MAINTAINERS.iter();
        let follow_ups = kinds.map(|kind| kind.delete_follow_up(models, model));
        follow_ups.max().unwrap_or(Self::None)
    }
}

/// A document that a delete removes.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeletedDocument<'d> {
    pub(super) id: &'d RawBson,
    /// The value of the scope field; `None` if the model has no scope.
    pub(super) scope: Option<&'d RawBson>,
}

/// Work of a kind after documents are deleted, in the same transaction.
pub(super) type AfterDelete = Box<dyn FnOnce(Access) -> BoxFuture<'static, Result<()>> + Send>;

/// What a kind adds to an update that removes references.
#[derive(Default)]
pub(super) struct Detach {
    pub(super) conditional_record: Option<ConditionalRecord>,
    /// Follow-up work after the update, or after the transaction of the update.
    pub(super) follow_up: Option<FollowUp>,
}

/// Follow-up work that the caller does not wait for.
pub(super) type FollowUp = Box<dyn FnOnce(&Access) + Send>;

/// An update of the elements of an overflow array in one document.
pub(super) struct ElementUpdate<'u> {
    pub(super) cx: &'u WriteContext,
    pub(super) array: &'static OverflowField,
    pub(super) write: &'u WriteOperation,
    pub(super) id: &'u Bson,
    /// The elements that the update adds.
    pub(super) added: &'u [Bson],
    /// Runs the update.
    pub(super) run: &'u (dyn Fn(WriteContext, WriteOperation) -> WriteFuture + Send + Sync),
}

/// Runs a follow-up write through all stages.
pub(super) fn run_follow_up(
    access: ModelAccess<'_>,
    write: impl Into<WriteOperation>,
) -> WriteFuture {
    Next::all().run(WriteContext::of_follow_up(access), write.into())
}

/// Checks a change of references that the intent record of a document announces.
pub(super) async fn check_intent(
    access: ModelAccess<'_>,
    id: &RawBson,
    new_ids: &RawDocument,
) -> Result<()> {
    for kind in MAINTAINERS {
        kind.check_intent(access, id, new_ids).await?;
    }
    Ok(())
}

/// Adds the fields of all kinds to the update that makes a tombstone final.
pub(super) fn mark_tombstone(access: ModelAccess<'_>, set: &mut RawDocumentBuf) -> Result<()> {
    MAINTAINERS
        .iter()
        .try_for_each(|kind| kind.mark_tombstone(access, set))
}

/// Returns the paths that a save must not change.
pub(super) fn managed_paths(model: &'static Model) -> Vec<String> {
    let kinds = MAINTAINERS.iter();
    kinds.flat_map(|kind| kind.managed_paths(model)).collect()
}

/// Returns the derived and numbered fields of a model by stored path, each with a description of the declaration.
pub(crate) fn declarations(model: &'static Model) -> BTreeMap<String, String> {
    let kinds = MAINTAINERS.iter();
    let derived = kinds.flat_map(|kind| kind.declarations(model));
    derived.chain(sequence::declarations(model)).collect()
}

/// Returns the kinds of pending work that documents of a model, or the chunks of its arrays, can have.
pub(crate) fn pending_kinds(access: ModelAccess<'_>) -> Vec<(&'static Model, PendingKind)> {
    let kinds = MAINTAINERS.iter();
    kinds.flat_map(|kind| kind.pending_kinds(access)).collect()
}

/// Adds the indexes of all kinds to the declared indexes.
pub(crate) fn with_derived_indexes(
    mut declared: Vec<DeclaredIndexes>,
    models: &[&'static Model],
) -> Vec<DeclaredIndexes> {
    for kind in MAINTAINERS {
        kind.add_indexes(models, &mut declared);
    }
    declared
}
