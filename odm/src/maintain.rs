//! The write path: every typed write becomes a write request and runs here.
//!
//! A write request is a single operation and the follow-up work that the schema asks for. Versions, timestamps and computed
//! fields are part of the same operation. Inverses, copies, rollups and chunk documents are follow-up writes. A delete of a model
//! with `soft_delete` is an update that sets the date.

mod background;
mod blocked;
mod bulk;
mod computed;
mod copy;
mod delete_mode;
mod explain;
pub(crate) mod footprint;
mod link;
mod metadata_update;
mod overflow;
mod pending;
mod recovery;
mod reference_scope;
mod rollup;
mod sequence;
mod shard_routing;
mod write_operation;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bson::{DateTime, RawDocumentBuf};
use tracing::Instrument;

pub(crate) use background::DEFAULT_FAN_OUTS;
pub use blocked::Rejection;
use blocked::is_rejection;
pub(crate) use blocked::{
    blocked_filter, blocked_record, pending_kinds, release_blocked, stored_rejections,
};
pub(crate) use bulk::{BatchKind, BulkWriteEntry, NarrowedBulkWrite, run_bulk};
pub(crate) use computed::{
    WrongComputedField, compute_document, compute_fields, find_wrong_fields, recompute_fields,
};
use copy::FanOutProgress;
pub(crate) use copy::{
    SourceCache, StaleCopy, cleared_path, declared_copies, find_drifted, find_stale_copies,
    prepare_save, refill_copy, refresh_copies, resolve_drafts, snapshot_projection,
    with_copy_indexes, writes_copied_reference,
};
pub(crate) use delete_mode::{DeleteMode, apply_delete_mode, delete_operation};
pub(crate) use explain::WriteExplanation;
pub(crate) use footprint::Footprint;
use footprint::with_operator;
pub use link::DeletePreview;
pub(crate) use link::{
    DeleteRule, ReferenceRepair, SpilledState, ensure_same_variant, ids_at, ids_of_side,
    preview_delete, remove_duplicates, repair_reference, rules_targeting, spilled_state,
    upgrade_document, with_lease_indexes,
};
pub(crate) use overflow::{
    ArrayFinding, ArrayProblem, FoldOutcome, any_element_condition, check_arrays, delete_orphan,
    find_orphan_chunks, fold_array, provisional_chunks, repair_array, resident_positions,
    spill_array, too_long_or_large, unfinished_chunks_filter, with_overflow_indexes,
};
use pending::PendingToken;
pub(crate) use pending::{DEFAULT_LEASE_DURATION, Lease, PendingKind};
pub(crate) use recovery::{RecoveryReport, recover_abandoned};
pub(crate) use rollup::{WrongCount, find_wrong_rollups, recompute_parent, with_rollup_indexes};
pub(crate) use sequence::SequenceNumbers;
pub(crate) use write_operation::{WriteOperation, WriteOutcome};

use crate::{
    Error, ErrorKind, Result,
    access::{Access, add_condition, find_matching},
    backend::{BoxFuture, operation::DocumentChange},
    error, retry,
    schema::{MissingUniqueIndexes, Model, upgrade},
    transaction_scope,
};

/// State that the writes of this process to one database share.
#[derive(Debug)]
pub(crate) struct WriterState {
    /// The indexes that are known to exist in the database.
    index_cache: copy::IndexedReferences,
    /// The recoveries that tasks run on behalf of waiting writers.
    recoveries: link::ActiveRecoveries,
    /// Rollup updates that wait to be applied together.
    waiting_rollups: rollup::RollupQueues,
    background: background::BackgroundTasks,
    missing_unique_indexes: Arc<MissingUniqueIndexes>,
    lease: Lease,
}

impl WriterState {
    /// Creates the state of a database that was just opened.
    pub(crate) fn new(lease: Lease, max_background_fan_outs: usize) -> Self {
        Self {
            lease,
            index_cache: copy::IndexedReferences::default(),
            recoveries: link::ActiveRecoveries::default(),
            waiting_rollups: rollup::RollupQueues::default(),
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
    pub(crate) fn run(self, access: Access) -> BoxFuture<'static, Result<WriteOutcome>> {
        Box::pin(async move {
            let Self {
                model,
                operation: mut write,
                sources,
            } = self;
            transaction_scope::ensure_in_transaction(&access)
                .map_err(error::naming_model(model))?;
            if write.may_insert() {
                ensure_unique_indexes(&access, model).await?;
            }
            if let Some(explanation) = access.explanation() {
                explanation.add_reasons(&access, model, &write.footprint());
            }
            let affects_at_most_one = write.affects_at_most_one();
            if let Some(filter) = write.filter_mut() {
                narrow_filter(&access, model, filter, affects_at_most_one).await?;
            }
            let metrics = access.clone();
            let run = run_stages(access, model, write, sources);
            let span = metrics.operation_metrics().tracing_span().clone();
            let outcome = transaction_scope::run_write(run.instrument(span)).await;
            let outcome = outcome.map_err(error::naming_model(model))?;
            metrics.operation_metrics().add_documents(outcome.matched);
            Ok(outcome)
        })
    }
}

/// Checks that no unique index of the model is missing in the database, before a write that may insert a document.
async fn ensure_unique_indexes(access: &Access, model: &Model) -> Result<()> {
    let missing = access.shared_state().missing_unique_indexes();
    missing.ensure_none(model, &*access.backend()).await
}

/// Runs the stages of a write: scope check, spill of overflow arrays, copies, rollups, references and computed fields.
fn run_stages(
    access: Access,
    model: &'static Model,
    mut write: WriteOperation,
    mut sources: SourceCache,
) -> BoxFuture<'static, Result<WriteOutcome>> {
    Box::pin(async move {
        reference_scope::ensure_references_in_scope(&access, model, &write.footprint())?;
        if !model.overflows.is_empty() {
            copy::fill_elements(&access, model, &mut write, &mut sources).await?;
        }
        match overflow::is_affected(model, &write.footprint()) {
            true => overflow::run_write(access, model, write, sources).await,
            false => run_from_copies(access, model, write, sources).await,
        }
    })
}

/// Runs the stages from copies onwards. Overflow arrays in the write are already spilled.
async fn run_from_copies(
    access: Access,
    model: &'static Model,
    mut write: WriteOperation,
    mut sources: SourceCache,
) -> Result<WriteOutcome> {
    let mut pending = copy::prepare_write(&access, model, &mut write, &mut sources).await?;
    if pending.is_empty() {
        return rollup::run_write(access, model, write, &mut pending).await;
    }
    run_with_copies(access, model, write, pending).await
}

/// Runs a write with pending copies.
fn run_with_copies(
    access: Access,
    model: &'static Model,
    write: WriteOperation,
    mut pending: copy::PendingCopies,
) -> BoxFuture<'static, Result<WriteOutcome>> {
    Box::pin(async move {
        let mut transaction_result = None;
        if pending.starts_in_transaction() {
            let is_rejected = AtomicBool::new(false);
            let run_transaction = |access: Access| {
                let (write, pending, is_rejected) = (write.clone(), &pending, &is_rejected);
                is_rejected.store(false, Ordering::Relaxed);
                async move {
                    // Copies are revalidated after the commit.
                    let mut copies = pending.clone();
                    let outcome =
                        rollup::run_write(access.clone(), model, write, &mut copies).await?;
                    if access.transaction_scope().is_none() || outcome.matched == 0 {
                        return Ok((outcome, FanOutProgress::NotStarted));
                    }
                    let fan_out = pending.fan_out_in_transaction(&access, model).await;
                    let fan_out = fan_out.map_err(|error| {
                        is_rejected.store(is_rejection(&error), Ordering::Relaxed);
                        access.fail_transaction(error)
                    });
                    Ok((outcome, fan_out?))
                }
            };
            transaction_result = match access
                .run_transactional(
                    transaction_scope::DEFAULT_TRANSACTION_ATTEMPTS,
                    run_transaction,
                )
                .await
            {
                Ok((outcome, fan_out)) => Some((Ok(outcome), fan_out)),
                // A dependent rejects a copy. Commit the write without the fan-out, which stays pending.
                Err(_)
                    if access.transaction_scope().is_none()
                        && is_rejected.load(Ordering::Relaxed) =>
                {
                    retry::log_fallback(
                        model,
                        "a dependent rejects a copy: the fan-out stays pending",
                    );
                    None
                }
                Err(error) => Some((Err(error), FanOutProgress::NotStarted)),
            };
        }
        let (outcome, fan_out) = match transaction_result {
            Some(outcome) => outcome,
            None => (
                rollup::run_write(access.clone(), model, write, &mut pending).await,
                FanOutProgress::NotStarted,
            ),
        };
        let pending = pending.after_transaction(fan_out);
        match (&outcome, access.transaction_scope()) {
            (Ok(outcome), _) if outcome.matched == 0 => {}
            (Ok(_), None) => pending.run_after_write(access, model).await,
            // A failed operation may have written some documents.
            (Err(_), None) => pending.run_in_background(&access, model),
            // The documents are visible to other sessions only after the commit of the caller's transaction.
            (Ok(_), Some(_)) => pending.run_in_background(&access, model),
            (Err(_), Some(_)) => {}
        }
        outcome
    })
}

/// Follow-up work of a nested write.
#[derive(Debug, Clone)]
struct NestedFollowUp {
    copies: copy::PendingCopies,
    rollups: Option<PendingToken>,
}

impl NestedFollowUp {
    /// Runs the follow-up work in the background, after the enclosing transaction.
    fn run_in_background(self, access: &Access, model: &'static Model) {
        self.copies.run_in_background(access, model);
        if let Some(token) = self.rollups {
            rollup::apply_in_background(access, model, token);
        }
    }
}

/// Runs a write with inverses and delete rules, if references may change. Then runs computed fields.
async fn run_from_references(
    access: Access,
    model: &'static Model,
    write: WriteOperation,
) -> Result<WriteOutcome> {
    let is_intent_write = || {
        let filter = write.filter();
        filter.is_some_and(|filter| link::is_intent_write(filter))
    };
    let changes_references = link::may_change_references(&access, model, &write.footprint());
    match changes_references && !is_intent_write() {
        true => link::run_write(access, model, write).await,
        false if deletes_chunks(model, &write) => {
            overflow::delete_with_chunks(&access, model, write).await
        }
        false => computed::run_write(&access, model, write).await,
    }
}

/// Whether a write deletes documents with chunk documents.
fn deletes_chunks(model: &Model, write: &WriteOperation) -> bool {
    !model.overflows.is_empty() && matches!(write.footprint(), Footprint::Removes)
}

/// Narrows a filter to the model, the scope and the current version of documents. A write of a single document must contain the
/// shard key.
async fn narrow_filter(
    access: &Access,
    model: &'static Model,
    filter: &mut RawDocumentBuf,
    affects_at_most_one: bool,
) -> Result<()> {
    if affects_at_most_one {
        shard_routing::ensure_shard_key(access, model, filter)?;
    }
    upgrade::upgrade_before_write(access, model, filter).await?;
    if let Some((path, condition)) = upgrade::current_version_condition(model)? {
        add_condition(filter, path, condition)?;
    }
    access.restrict_filter(model, filter)?;
    let find = || Ok(find_matching(&model.collection.into(), filter));
    access.log_plan(model, find).await;
    Ok(())
}

/// Adds managed fields to a change: increments the version, and sets the modification time.
pub(crate) fn add_managed_fields(change: &mut DocumentChange, model: &Model) -> Result<()> {
    // The typed language changes documents only by operators. A replacement without managed fields would break optimistic
    // locking.
    let update = match change {
        DocumentChange::Operators { update, .. } => update,
        _ if model.version.is_none() && model.updated.is_none() => return Ok(()),
        _ => {
            let message = "a replacement cannot maintain managed fields such as `version` and `updated_at`, and nothing was written: use update operators";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    };
    if let Some(version) = model.version {
        *update = with_operator(update, "$inc", version, 1_i64.into())?;
    }
    if let Some(updated) = model.updated {
        *update = with_operator(update, "$set", updated, DateTime::now().into())?;
    }
    Ok(())
}
