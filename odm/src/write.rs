//! The write path: every typed write becomes a write request and runs here.
//!
//! A write request is a single operation and the follow-up work that the schema asks for. Versions, timestamps and computed
//! fields are part of the same operation. Inverses, copies, rollups and chunk documents are follow-up writes. A delete of a model
//! with `soft_delete` is an update that sets the date.

mod arrays;
mod bulk;
mod caseless;
mod computed;
mod copies;
mod delete_mode;
mod explain;
pub(crate) mod footprint;
mod maintainer;
pub(crate) mod metadata_update;
mod recovery;
mod reference_scope;
mod references;
mod rollups;
mod sequence;
mod shard_routing;
mod tree_chain;
mod trees;
mod version_clock;
mod write_operation;

use std::sync::Arc;

use bson::{DateTime, RawDocumentBuf};
use tracing::Instrument;

pub(crate) use arrays::{
    ArrayFinding, ArrayProblem, FoldOutcome, check_arrays, delete_orphan, find_orphan_chunks,
    fold_array, repair_array, spill_array, unfinished_chunks_filter,
};
pub(crate) use bulk::{BatchKind, BulkWriteEntry, NarrowedBulkWrite, run_bulk};
pub(crate) use computed::{WrongComputedField, find_wrong_fields, recompute_fields};
pub(crate) use copies::{
    SourceCache, StaleCopy, cleared_path, find_drifted, find_stale_copies, prepare_save,
    refill_copy, refresh_copies, resolve_drafts, snapshot_projection, writes_copied_reference,
};
pub(crate) use delete_mode::{DeleteMode, apply_delete_mode, delete_operation};
pub(crate) use explain::WriteExplanation;
pub(crate) use footprint::Footprint;
use footprint::with_operator;
use maintainer::{Next, WriteContext, WriteFuture};
pub(crate) use maintainer::{declarations, pending_kinds, with_derived_indexes};
pub(crate) use recovery::recover_abandoned;
pub use references::DeletePreview;
pub(crate) use references::{
    DeleteRule, ReferenceRepair, SpilledState, ensure_same_variant, ids_at, ids_of_side,
    preview_delete, preview_soft_delete, remove_duplicates, repair_reference, rules_targeting,
    spilled_state, upgrade_document,
};
pub(crate) use rollups::{WrongCount, find_wrong_rollups, recompute_parent};
pub(crate) use sequence::{SequenceNumbers, assign_missing_number, missing_numbers};
pub(crate) use write_operation::{WriteOperation, WriteOutcome};

use crate::{
    Error, ErrorKind, Result,
    backend::operation::DocumentChange,
    error,
    model::caseless::add_caseless_texts,
    pending::{
        background::{self, DEFAULT_FAN_OUTS},
        lease::Lease,
    },
    schema::{MissingUniqueIndexes, Model, upgrade},
    session::{
        access::{Access, ModelAccess, add_condition},
        transaction_scope,
    },
};

/// State that the writes of this process to one database share.
#[derive(Debug)]
pub(crate) struct WriterState {
    /// The indexes that are known to exist in the database.
    index_cache: copies::IndexedReferences,
    /// The recoveries that tasks run on behalf of waiting writers.
    recoveries: references::ActiveRecoveries,
    /// Rollup updates that wait to be applied together.
    waiting_rollups: rollups::RollupQueues,
    background: background::BackgroundTasks,
    missing_unique_indexes: Arc<MissingUniqueIndexes>,
    lease: Lease,
}

impl WriterState {
    /// Creates the state of a database that was just opened.
    pub(crate) fn new(lease: Lease, max_background_fan_outs: usize) -> Self {
        Self {
            lease,
            index_cache: copies::IndexedReferences::default(),
            recoveries: references::ActiveRecoveries::default(),
            waiting_rollups: rollups::RollupQueues::default(),
            background: background::BackgroundTasks::new(max_background_fan_outs),
            missing_unique_indexes: Arc::default(),
        }
    }

    /// Returns the state of a trial. A trial shares no work with other writes.
    pub(crate) fn for_trial(&self) -> Self {
        Self {
            missing_unique_indexes: Arc::clone(&self.missing_unique_indexes),
            ..Self::new(self.lease, DEFAULT_FAN_OUTS)
        }
    }

    /// Returns the background tasks of this process for the database.
    pub(crate) fn background_tasks(&self) -> &background::BackgroundTasks {
        &self.background
    }

    /// Returns the lease on pending work that this process records.
    pub(crate) fn lease(&self) -> Lease {
        self.lease
    }

    /// Returns the unique indexes that the database does not have.
    pub(crate) fn missing_unique_indexes(&self) -> &MissingUniqueIndexes {
        &self.missing_unique_indexes
    }
}

/// A write to documents of one model, with managed fields.
#[derive(Debug)]
pub(crate) struct WriteRequest {
    model: &'static Model,
    operation: WriteOperation,
    /// Source documents of copies that were read before the write.
    sources: SourceCache,
}

impl WriteRequest {
    /// Creates a write request with managed fields.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) for a value that BSON cannot hold.
    pub(crate) fn new(model: &'static Model, operation: impl Into<WriteOperation>) -> Result<Self> {
        Ok(Self {
            model,
            operation: operation.into().with_managed_fields(model)?,
            sources: SourceCache::default(),
        })
    }

    /// Creates a write request of exactly this operation: the operation contains its managed fields, or changes only the stored
    /// form of documents.
    pub(crate) fn exact(model: &'static Model, operation: impl Into<WriteOperation>) -> Self {
        Self {
            model,
            operation: operation.into(),
            sources: SourceCache::default(),
        }
    }

    /// Adds source documents of copies that were read before the write.
    pub(crate) fn with_sources(self, sources: SourceCache) -> Self {
        Self { sources, ..self }
    }

    /// Runs the request to its end. A write must not stop half-way when the caller drops the future.
    pub(crate) fn run(self, access: Access) -> WriteFuture {
        Box::pin(async move {
            let Self {
                model,
                operation: mut write,
                sources,
            } = self;
            transaction_scope::ensure_in_transaction(&access)
                .map_err(error::naming_model(model))?;
            if write.may_insert() {
                ensure_unique_indexes(access.to(model)).await?;
            }
            if let Some(explanation) = access.explanation() {
                explanation.add_reasons(access.to(model), &write.footprint());
            }
            let affects_at_most_one = write.affects_at_most_one();
            if let Some(filter) = write.filter_mut() {
                narrow_write_filter(access.to(model), filter, affects_at_most_one).await?;
            }
            let metrics = access.clone();
            let run = run_stages(WriteContext::new(access, model, sources), write);
            let span = metrics.operation_metrics().tracing_span().clone();
            let outcome = transaction_scope::run_write(run.instrument(span)).await;
            let outcome = outcome.map_err(error::naming_model(model));
            let outcome = outcome.map_err(|error| metrics.note_conflict(error))?;
            metrics.operation_metrics().add_documents(outcome.matched);
            Ok(outcome)
        })
    }
}

/// Checks that no unique index of the model is missing in the database, before a write that may insert a document.
async fn ensure_unique_indexes(access: ModelAccess<'_>) -> Result<()> {
    let missing = access.shared_state().missing_unique_indexes();
    missing.ensure_none(access.model, &*access.backend()).await
}

/// Runs a write through the stages of `maintainer.rs`, and then at the backend.
fn run_stages(cx: WriteContext, write: WriteOperation) -> WriteFuture {
    let in_scope =
        reference_scope::ensure_references_in_scope(cx.access.to(cx.model), &write.footprint());
    match in_scope {
        Ok(()) => Next::all().run(cx, write),
        Err(error) => Box::pin(std::future::ready(Err(error))),
    }
}

/// Narrows the filter of a write, as [`narrow_filter`]. A write of a single document must contain the shard key.
async fn narrow_write_filter(
    access: ModelAccess<'_>,
    filter: &mut RawDocumentBuf,
    affects_at_most_one: bool,
) -> Result<()> {
    if affects_at_most_one {
        shard_routing::ensure_shard_key(access, filter)?;
    }
    narrow_filter(access, filter).await
}

/// Narrows a filter to the model, the scope and the current version of documents.
async fn narrow_filter(access: ModelAccess<'_>, filter: &mut RawDocumentBuf) -> Result<()> {
    let model = access.model;
    upgrade::upgrade_before_write(&access, model, filter).await?;
    if let Some((path, condition)) = upgrade::current_version_condition(model)? {
        add_condition(filter, path, condition)?;
    }
    access.restrict_filter(model, filter)?;
    let find = || Ok(access.find_matching(filter));
    access.log_plan(model, find).await;
    Ok(())
}

/// Adds the metadata of a new document: the schema version, and the caseless texts.
fn add_insert_metadata(document: &mut RawDocumentBuf, model: &Model) -> Result<()> {
    upgrade::add_version(model, document)?;
    add_caseless_texts(model, document)
}

/// Adds managed fields to a change: increments the version, sets the modification time, and sets the caseless texts.
pub(crate) fn add_managed_fields(change: &mut DocumentChange, model: &Model) -> Result<()> {
    // The typed language changes documents only by operators. A replacement without managed fields would break optimistic
    // locking.
    let update = match change {
        DocumentChange::Operators { update, .. } => update,
        _ if model.version.is_none() && model.updated.is_none() && model.caseless.is_empty() => {
            return Ok(());
        }
        _ => {
            let message = "a replacement cannot maintain managed fields such as `version` and `updated_at`, and nothing was written: use update operators";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    caseless::add_caseless_changes(model, update)?;
    if let Some(version) = model.version {
        *update = with_operator(update, "$inc", version, 1_i64.into())?;
    }
    if let Some(updated) = model.updated {
        *update = with_operator(update, "$set", updated, DateTime::now().into())?;
    }
    Ok(())
}
