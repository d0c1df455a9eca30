//! The write path: every typed write becomes a write request and runs here.
//!
//! A write request is a single operation and the follow-up work that the schema asks for. Versions, timestamps and computed
//! fields are part of the same operation. Inverses, copies, rollups and chunk documents are follow-up writes. A delete of a model
//! with `soft_delete` is an update that sets the date.

mod any_write;
mod background;
mod blocked;
mod bulk;
mod computed;
mod copy;
mod delete_mode;
mod link;
mod metadata_update;
mod overflow;
mod pending;
mod reference_scope;
mod rollup;
mod sequence;
mod shard_routing;

use std::sync::atomic::{AtomicBool, Ordering};

use any_write::AnyWrite;
use bson::{DateTime, RawBson, RawDocument, RawDocumentBuf};
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
pub(crate) use delete_mode::{DeleteMode, HardOrSoftDelete, apply_delete_mode};
pub use link::DeletePreview;
pub(crate) use link::{
    DeleteRule, Footprint, RecoveryReport, ReferenceRepair, ensure_same_variant, ids_at,
    ids_of_side, preview_delete, remove_duplicates, repair_reference, rules_targeting,
    upgrade_document, with_lease_indexes,
};
pub(crate) use overflow::{
    ArrayFinding, ArrayProblem, FoldOutcome, any_element_condition, check_arrays, delete_orphan,
    find_orphan_chunks, fold_array, provisional_chunks, repair_array, resident_positions,
    spill_array, too_long_or_large, unfinished_chunks_filter, with_overflow_indexes,
};
pub(crate) use pending::PendingKind;
use pending::{LEASE_DURATION, PendingToken};
pub(crate) use rollup::{WrongCount, find_wrong_rollups, recompute_parent, with_rollup_indexes};
pub(crate) use sequence::SequenceNumbers;

use crate::{
    Error, ErrorKind, Result,
    access::{Access, add_condition, find_matching},
    backend::{
        BoxFuture,
        operation::{
            DocumentChange, FindAndModify, FindAndModifyKind, InsertOperation, UpdateOperation,
            UpdateResult,
        },
    },
    error,
    query::append_field,
    retry,
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
    missing_unique_indexes: MissingUniqueIndexes,
}

impl WriterState {
    /// Creates the state of a database that was just opened.
    pub(crate) fn new(max_background_fan_outs: usize) -> Self {
        Self {
            index_cache: copy::IndexedReferences::default(),
            recoveries: link::ActiveRecoveries::default(),
            waiting_rollups: rollup::RollupQueues::default(),
            background: background::BackgroundTasks::new(max_background_fan_outs),
            missing_unique_indexes: MissingUniqueIndexes::default(),
        }
    }

    /// Returns the background tasks of this process for the database.
    pub(crate) fn background_tasks(&self) -> &background::BackgroundTasks {
        &self.background
    }

    /// Returns the unique indexes that the database does not have.
    pub(crate) fn missing_unique_indexes(&self) -> &MissingUniqueIndexes {
        &self.missing_unique_indexes
    }
}

/// Recovers abandoned pending work of a model: references, copies, rollups and overflow arrays. A failure in one document does
/// not stop the recovery of the rest.
pub(crate) async fn recover_abandoned(
    access: &Access,
    model: &'static Model,
    report: &mut RecoveryReport,
) -> Result<()> {
    link::recover_model(access, model, report).await?;
    copy::recover_model(access, model, report).await?;
    rollup::recover_model(access, model, report).await?;
    overflow::recover_arrays(access, model, report).await
}

/// A write to documents of one model, with managed fields.
#[derive(Debug)]
pub(crate) struct WriteRequest<W> {
    model: &'static Model,
    operation: W,
    /// Source documents of copies that were read before the write.
    sources: SourceCache,
}

/// A single backend operation that writes documents.
pub(crate) trait WriteOperation:
    Clone + Sized + Send + Sync + Into<AnyWrite> + 'static
{
    /// The result of the operation.
    type Outcome: Send + From<any_write::WriteOutcome> + 'static;

    /// Returns the operation with managed fields such as the version and the modification time.
    ///
    /// The managed fields of an insert are set earlier, when the document is built.
    fn with_managed_fields(self, model: &Model) -> Result<Self>;

    /// Returns the number of documents that an operation matched or inserted.
    fn matched_count(outcome: &Self::Outcome) -> u64;

    /// Whether the operation affects at most one stored document.
    fn affects_at_most_one(&self) -> bool;

    /// Returns the filter of the operation. `None` for an insert.
    fn filter_mut(&mut self) -> Option<&mut RawDocumentBuf>;

    /// Returns the order that selects a document among several matches. `None` if any match will do.
    fn sort_order(&self) -> Option<&RawDocument> {
        None
    }

    /// Returns the footprint of the operation on references and derived data.
    fn footprint(&self) -> Footprint<'_>;

    /// Returns the documents of an insert. `None` for updates and deletes.
    fn documents_to_insert(&mut self) -> Option<&mut [RawDocumentBuf]> {
        None
    }

    /// Returns the change of an update. `None` for inserts and deletes.
    fn change_mut(&mut self) -> Option<&mut DocumentChange> {
        None
    }

    /// Returns the same operation as a command that returns the old document. `Some` only for an update of a single document by
    /// operators, without upsert.
    fn as_find_and_modify(&self) -> Option<FindAndModify> {
        None
    }

    /// Returns the document in a result, if the document shows the state after the write.
    fn updated_document_mut<'d>(
        &self,
        outcome: &'d mut Self::Outcome,
    ) -> Option<&'d mut RawDocumentBuf> {
        let _ = outcome;
        None
    }

    /// Returns the result of an update that matched one document. `is_modified` says whether the document changed.
    fn outcome_of_one(is_modified: bool) -> Self::Outcome {
        Self::outcome_of(is_modified.into())
    }

    /// Returns the result of an operation that matched and changed the given number of documents.
    fn outcome_of(documents: u64) -> Self::Outcome;

    /// Adds the result for further documents to a result.
    fn add_outcome(total: &mut Self::Outcome, outcome: Self::Outcome);

    /// Sends the operation to the backend.
    fn run_on(
        self,
        access: &Access,
        model: &Model,
    ) -> impl Future<Output = Result<Self::Outcome>> + Send;

    /// Runs the operation and then a second update of the same documents. The caller provides the transaction.
    fn run_followed_by(
        self,
        access: &Access,
        model: &Model,
        second: UpdateOperation,
    ) -> impl Future<Output = Result<Self::Outcome>> + Send {
        async move {
            let outcome = self.run_on(access, model).await?;
            access.update(model, second).await?;
            Ok(outcome)
        }
    }
}

impl<W: WriteOperation> WriteRequest<W> {
    /// Creates a write request with managed fields.
    ///
    /// # Errors
    ///
    /// [`Encode`](crate::ErrorKind::Encode) for a value that BSON cannot hold.
    pub(crate) fn new(model: &'static Model, operation: W) -> Result<Self> {
        Ok(Self {
            model,
            operation: operation.with_managed_fields(model)?,
            sources: SourceCache::default(),
        })
    }

    /// Creates a write request that changes only the stored form of documents. The version and the modification time stay the
    /// same.
    pub(crate) fn without_managed_fields(model: &'static Model, operation: W) -> Self {
        Self {
            model,
            operation,
            sources: SourceCache::default(),
        }
    }

    /// Adds source documents of copies that were read before the write.
    pub(crate) fn with_sources(self, sources: SourceCache) -> Self {
        Self { sources, ..self }
    }

    /// Returns the operation.
    pub(crate) fn operation(&self) -> &W {
        &self.operation
    }

    /// Runs the request to its end. A write must not stop half-way when the caller drops the future.
    pub(crate) async fn run(self, access: Access) -> Result<W::Outcome> {
        let outcome = run_erased(access, self.model, self.operation.into(), self.sources);
        outcome.await.map(Into::into)
    }
}

/// Runs a write of any kind. The function is not generic, so the write path is compiled once in this crate and not once per
/// application.
fn run_erased(
    access: Access,
    model: &'static Model,
    mut write: AnyWrite,
    sources: SourceCache,
) -> BoxFuture<'static, Result<any_write::WriteOutcome>> {
    Box::pin(async move {
        transaction_scope::ensure_in_transaction(&access).map_err(error::naming_model(model))?;
        if write.may_insert() {
            ensure_unique_indexes(&access, model).await?;
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
        metrics
            .operation_metrics()
            .add_documents(AnyWrite::matched_count(&outcome));
        Ok(outcome)
    })
}

/// Checks that no unique index of the model is missing in the database, before a write that may insert a document.
async fn ensure_unique_indexes(access: &Access, model: &Model) -> Result<()> {
    let missing = access.shared_state().missing_unique_indexes();
    missing.ensure_none(model, &*access.backend()).await
}

/// Runs the stages of a write: scope check, spill of overflow arrays, copies, rollups, references and computed fields.
async fn run_stages(
    access: Access,
    model: &'static Model,
    mut write: AnyWrite,
    mut sources: SourceCache,
) -> Result<any_write::WriteOutcome> {
    reference_scope::ensure_references_in_scope(&access, model, &write.footprint())?;
    if !model.overflows.is_empty() {
        copy::fill_elements(&access, model, &mut write, &mut sources).await?;
    }
    match overflow::is_affected(model, &write.footprint()) {
        true => overflow::run_write(access, model, write, sources).await,
        false => run_from_copies(access, model, write, sources).await,
    }
}

/// Runs the stages from copies onwards. Overflow arrays in the write are already spilled.
async fn run_from_copies<W: WriteOperation>(
    access: Access,
    model: &'static Model,
    mut write: W,
    mut sources: SourceCache,
) -> Result<W::Outcome> {
    let mut pending = copy::prepare_write(&access, model, &mut write, &mut sources).await?;
    if pending.is_empty() {
        return rollup::run_write(access, model, write, &mut pending).await;
    }
    run_with_copies(access, model, write, pending).await
}

/// Runs a write with pending copies.
fn run_with_copies<W: WriteOperation>(
    access: Access,
    model: &'static Model,
    write: W,
    mut pending: copy::PendingCopies,
) -> BoxFuture<'static, Result<W::Outcome>> {
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
                    if access.transaction_scope().is_none() || W::matched_count(&outcome) == 0 {
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
            (Ok(outcome), _) if W::matched_count(outcome) == 0 => {}
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
async fn run_from_references<W: WriteOperation>(
    access: Access,
    model: &'static Model,
    mut write: W,
) -> Result<W::Outcome> {
    let may_change_references = link::may_change_references(&access, model, &write.footprint());
    let mut is_intent_write = || {
        let filter = write.filter_mut();
        filter.is_some_and(|filter| link::is_intent_write(filter))
    };
    match may_change_references && !is_intent_write() {
        true => link::run_write(access, model, write).await,
        false if deletes_chunks(model, &write) => {
            overflow::delete_with_chunks(&access, model, write).await
        }
        false => computed::run_write(&access, model, write).await,
    }
}

/// Whether a write deletes documents with chunk documents.
fn deletes_chunks<W: WriteOperation>(model: &Model, write: &W) -> bool {
    !model.overflows.is_empty() && matches!(write.footprint(), Footprint::Removes)
}

impl WriteOperation for InsertOperation {
    type Outcome = u64;

    fn with_managed_fields(mut self, model: &Model) -> Result<Self> {
        for document in &mut self.documents {
            upgrade::add_version(model, document)?;
        }
        Ok(self)
    }

    fn matched_count(inserted: &u64) -> u64 {
        *inserted
    }

    fn affects_at_most_one(&self) -> bool {
        false
    }

    fn filter_mut(&mut self) -> Option<&mut RawDocumentBuf> {
        None
    }

    fn footprint(&self) -> Footprint<'_> {
        Footprint::Inserts(&self.documents)
    }

    fn documents_to_insert(&mut self) -> Option<&mut [RawDocumentBuf]> {
        Some(&mut self.documents)
    }

    fn outcome_of(documents: u64) -> u64 {
        documents
    }

    fn add_outcome(total: &mut u64, inserted: u64) {
        *total += inserted;
    }

    async fn run_on(self, access: &Access, model: &Model) -> Result<u64> {
        let inserted = self.documents.len() as u64;
        access.insert(model, self).await.map(|()| inserted)
    }
}

impl WriteOperation for UpdateOperation {
    type Outcome = UpdateResult;

    fn matched_count(outcome: &UpdateResult) -> u64 {
        outcome.matched
    }

    fn affects_at_most_one(&self) -> bool {
        !self.multi
    }

    fn with_managed_fields(mut self, model: &Model) -> Result<Self> {
        add_managed_fields(&mut self.change, model)?;
        Ok(self)
    }

    fn filter_mut(&mut self) -> Option<&mut RawDocumentBuf> {
        Some(&mut self.filter)
    }

    fn footprint(&self) -> Footprint<'_> {
        Footprint::Changes(&self.change)
    }

    fn change_mut(&mut self) -> Option<&mut DocumentChange> {
        Some(&mut self.change)
    }

    fn as_find_and_modify(&self) -> Option<FindAndModify> {
        let is_plain = matches!(self.change, DocumentChange::Operators { .. });
        (is_plain && !self.multi && !self.upsert).then(|| FindAndModify {
            collection: self.collection.clone(),
            filter: self.filter.clone(),
            sort: None,
            projection: None,
            modification: FindAndModifyKind::Update {
                change: self.change.clone(),
                upsert: false,
                return_new: false,
            },
            origin: self.origin,
        })
    }

    fn outcome_of_one(is_modified: bool) -> UpdateResult {
        UpdateResult {
            modified: is_modified.into(),
            ..Self::outcome_of(1)
        }
    }

    fn outcome_of(documents: u64) -> UpdateResult {
        UpdateResult {
            matched: documents,
            modified: documents,
            upserted_id: None,
        }
    }

    fn add_outcome(total: &mut UpdateResult, outcome: UpdateResult) {
        total.matched += outcome.matched;
        total.modified += outcome.modified;
    }

    async fn run_on(self, access: &Access, model: &Model) -> Result<UpdateResult> {
        access.update(model, self).await
    }
}

impl WriteOperation for FindAndModify {
    type Outcome = Option<RawDocumentBuf>;

    fn matched_count(document: &Option<RawDocumentBuf>) -> u64 {
        document.is_some().into()
    }

    fn affects_at_most_one(&self) -> bool {
        true
    }

    fn with_managed_fields(mut self, model: &Model) -> Result<Self> {
        if let FindAndModifyKind::Update { change, .. } = &mut self.modification {
            add_managed_fields(change, model)?;
        }
        Ok(self)
    }

    fn filter_mut(&mut self) -> Option<&mut RawDocumentBuf> {
        Some(&mut self.filter)
    }

    fn sort_order(&self) -> Option<&RawDocument> {
        self.sort.as_deref()
    }

    fn footprint(&self) -> Footprint<'_> {
        match &self.modification {
            FindAndModifyKind::Delete => Footprint::Removes,
            FindAndModifyKind::Update { change, .. } => Footprint::Changes(change),
        }
    }

    fn change_mut(&mut self) -> Option<&mut DocumentChange> {
        match &mut self.modification {
            FindAndModifyKind::Update { change, .. } => Some(change),
            FindAndModifyKind::Delete => None,
        }
    }

    fn updated_document_mut<'d>(
        &self,
        document: &'d mut Option<RawDocumentBuf>,
    ) -> Option<&'d mut RawDocumentBuf> {
        let modification = &self.modification;
        let is_new = matches!(
            modification,
            FindAndModifyKind::Update {
                return_new: true,
                ..
            }
        );
        document.as_mut().filter(|_| is_new)
    }

    fn outcome_of(_: u64) -> Option<RawDocumentBuf> {
        None
    }

    fn add_outcome(total: &mut Option<RawDocumentBuf>, document: Option<RawDocumentBuf>) {
        *total = total.take().or(document);
    }

    async fn run_on(self, access: &Access, model: &Model) -> Result<Option<RawDocumentBuf>> {
        access.find_and_modify(model, self).await
    }

    async fn run_followed_by(
        mut self,
        access: &Access,
        model: &Model,
        second: UpdateOperation,
    ) -> Result<Option<RawDocumentBuf>> {
        let FindAndModifyKind::Update {
            change,
            return_new: true,
            ..
        } = &mut self.modification
        else {
            let document = self.run_on(access, model).await?;
            access.update(model, second).await?;
            return Ok(document);
        };
        // The returned document must show both updates.
        let first = UpdateOperation {
            collection: self.collection.clone(),
            filter: self.filter.clone(),
            change: std::mem::replace(change, second.change),
            multi: false,
            upsert: false,
            origin: self.origin,
        };
        if access.update(model, first).await?.matched == 0 {
            return Ok(None);
        }
        self.filter = second.filter;
        self.run_on(access, model).await
    }
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
fn add_managed_fields(change: &mut DocumentChange, model: &Model) -> Result<()> {
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

/// Returns the update with an operator for one more path.
fn with_operator(
    update: &RawDocument,
    operator: &str,
    path: &str,
    value: RawBson,
) -> Result<RawDocumentBuf> {
    let mut changed = RawDocumentBuf::new();
    let mut paths = RawDocumentBuf::new();
    for field in update.iter() {
        let (name, value) = field.map_err(error::from_bson)?;
        match value.as_document() {
            Some(operator_paths) if name == operator => paths = operator_paths.to_owned(),
            _ => append_field(&mut changed, name.as_str(), RawBson::from(value))?,
        }
    }
    append_field(&mut paths, path, value)?;
    append_field(&mut changed, operator, paths)?;
    Ok(changed)
}
