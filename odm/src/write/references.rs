//! References with delete rules, and two-way links.
//!
//! A reference is authoritative. Only this module writes the inverse on the target, and derives the inverse from references.
//!
//! - With transactions, a write and the changes of inverses commit together. The module compares the references before and after
//!   the write: ids that appear are added to inverses, ids that disappear are removed.
//! - An update of a single document usually needs no prior read. The command returns the old document, and the operators
//!   determine the new references.
//! - Without transactions, an intent record in the referrer lets any process finish or undo the write (`references/intent.rs`).
//!
//! Two changes of a reference conflict in the referrer. A delete and a new reference to the deleted document conflict in the
//! target, because a new reference changes the inverse version of the target. The later transaction runs again.
//!
//! Removal from an inverse ignores scope and visibility: the target may be soft-deleted by now. Addition requires a target that
//! the writer's session sees.

mod delete_preview;
mod delete_rule;
mod delete_set;
mod detach;
mod footprint;
mod intent;
mod inverse_batch;
pub(super) mod linked_document;
mod overflow_inverse;
mod overflow_references;
mod repair;
mod soft_cascade;
mod upgrade;
mod validate;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use bson::{Bson, RawBson, RawDocument, RawDocumentBuf, oid::ObjectId, rawdoc};

pub use delete_preview::DeletePreview;
pub(crate) use delete_preview::{preview_delete, preview_soft_delete};
use delete_rule::detach_referrers;
pub(crate) use delete_rule::{DeleteRule, rules_targeting};
use delete_set::DeleteSet;
use footprint::{may_change_references, path_of_new_reference, reference_reasons};
pub(crate) use intent::ActiveRecoveries;
use inverse_batch::InverseBatch;
pub(crate) use linked_document::ids_at;
use linked_document::{LinkedDocument, read_linked, read_matching};
use overflow_inverse::InverseChange;
pub(crate) use overflow_inverse::{SpilledState, ids_of_side, spilled_state};
use overflow_references::add_conditions;
pub(crate) use repair::{ReferenceRepair, remove_duplicates, repair_reference};
use soft_cascade::{SoftCascade, SoftDeleteChange};
pub(crate) use upgrade::upgrade_document;
pub(crate) use validate::ensure_same_variant;
use validate::{
    delete_undecided, ensure_decided, missing_target, soft_cascade_needs_transaction,
    soft_cascade_too_large,
};

use super::{
    Footprint, WriteOperation, WriteOutcome,
    maintainer::{
        AfterDelete, DeclaredIndexes, DeleteFollowUp, ElementUpdate, MAINTAINERS,
        MAX_TRANSACTION_DELETES, Maintainer, Strategy, WriteContext, WriteFuture,
    },
    narrow_filter,
    recovery::retry_after_recovery,
    version_clock::first_version,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture,
        operation::{DeleteOperation, DocumentChange, Stage, UpdateOperation},
    },
    error,
    language::query::{append_field, field_missing, single_field_document},
    metadata::references::{INVERSE_VERSION, LEASE, RECORD, TombstoneState, tombstone},
    model::ids::{OrderedId, id_batches, id_values, ids_filter, one_of},
    parallel,
    pending::{
        expired::{ExpiredWork, RecoveryReport},
        record::PendingKind,
    },
    schema::{Model, OverflowField, ReferenceLink},
    session::{
        access::{Access, ModelAccess, add_condition, find_matching},
        retry,
        soft_delete::Visibility,
    },
};

/// References with delete rules, and the inverses.
#[derive(Debug)]
pub(super) struct References;

impl Maintainer for References {
    fn stage(&self) -> Stage {
        Stage::REFERENCES
    }

    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        let is_delete = matches!(footprint, Footprint::Removes);
        let is_two_phase = is_delete && cx.strategy == Strategy::TwoPhase;
        !cx.has_intent && (is_two_phase || may_change_references(cx, footprint))
    }

    fn reasons(&self, access: ModelAccess<'_>, footprint: &Footprint<'_>) -> Vec<String> {
        reference_reasons(access, footprint)
    }

    fn run(&'static self, cx: WriteContext, write: WriteOperation) -> WriteFuture {
        Box::pin(run_write(cx, write))
    }

    fn path_of_new_reference(&self, model: &'static Model, update: &RawDocument) -> Option<String> {
        path_of_new_reference(model, update)
    }

    fn add_indexes(&self, models: &[&'static Model], declared: &mut Vec<DeclaredIndexes>) {
        delete_rule::add_lease_indexes(models, declared);
        overflow_references::add_element_indexes(declared);
    }

    fn pending_kinds(&self, access: ModelAccess<'_>) -> Vec<(&'static Model, PendingKind)> {
        let unfinished = can_have_unfinished_work(access);
        let kind = unfinished.then_some((access.model, PendingKind::REFERENCES));
        kind.into_iter().collect()
    }

    fn recover<'a>(
        &'a self,
        access: ModelAccess<'a>,
        report: &'a mut RecoveryReport,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(recover_model(access, report))
    }

    fn depends_on_elements(
        &self,
        model: &'static Model,
        array: &OverflowField,
        adds: bool,
    ) -> bool {
        overflow_references::rule_of_array(model, array)
            .is_some_and(|rule| adds || rule.inverse.is_some())
    }

    fn write_elements<'a>(
        &'a self,
        update: ElementUpdate<'a>,
    ) -> BoxFuture<'a, Result<Option<WriteOutcome>>> {
        Box::pin(overflow_references::write_references(update))
    }

    fn elements_inserted<'a>(
        &'a self,
        access: ModelAccess<'a>,
        array: &'static OverflowField,
        owner: &'a Bson,
        elements: Vec<&'a Bson>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match overflow_references::rule_of_array(access.model, array) {
                Some(rule) => {
                    overflow_references::add_to_inverses(&access, rule, owner, elements).await
                }
                None => Ok(()),
            }
        })
    }
}

/// Runs a write with the changes of inverses and the delete rules that follow.
async fn run_write(cx: WriteContext, write: WriteOperation) -> Result<WriteOutcome> {
    match cx.strategy {
        Strategy::Transactional => {}
        Strategy::Standalone | Strategy::TwoPhase
            if soft_cascade::is_affected(&cx, &write.footprint()) =>
        {
            return Err(soft_cascade_needs_transaction(cx.model));
        }
        Strategy::Standalone | Strategy::TwoPhase => {
            return intent::run_standalone(&cx, write).await;
        }
    }
    let is_insert = matches!(write.footprint(), Footprint::Inserts(_));
    let run = || Box::pin(run_in_transaction(&cx, &write));
    let outcome = retry_after_recovery(&cx.access, run).await;
    match outcome {
        Ok(Some(outcome)) => Ok(outcome),
        Ok(None) => delete_in_batches(&cx, &write).await,
        // All documents of an insert commit together, so a failure inserts zero documents.
        Err(error) if is_insert => Err(error.with_inserted(0)),
        Err(error) => Err(error),
    }
}

/// Runs a write in a single transaction. Returns `None`, and writes no document, if a delete set exceeds
/// [`MAX_TRANSACTION_DELETES`].
async fn run_in_transaction(
    cx: &WriteContext,
    write: &WriteOperation,
) -> Result<Option<WriteOutcome>> {
    let (access, model) = (&cx.access, cx.model);
    let soft_delete = SoftDeleteChange::of_write(model, &write.footprint());
    let is_delete = matches!(write.footprint(), Footprint::Removes) || soft_delete.is_some();
    // A delete in the caller's transaction stays atomic, so the size of the delete set has no limit.
    let is_limited = access.transaction_scope().is_none() && is_delete;
    let is_too_large = AtomicBool::new(false);
    let run_transaction = |access: Access| {
        let transaction = TransactionalWrite {
            full_access: access.with_full_visibility(),
            cx: cx.with_access(&access),
            max_documents: is_limited.then_some(MAX_TRANSACTION_DELETES),
            exceeds_limit: &is_too_large,
            soft_delete: soft_delete.clone(),
        };
        transaction.run_attempt(model, write.clone())
    };
    match access.run_transactional(run_transaction).await {
        Err(_) if is_too_large.load(Ordering::Relaxed) && soft_delete.is_some() => {
            Err(soft_cascade_too_large(model))
        }
        Err(_) if is_too_large.load(Ordering::Relaxed) => {
            retry::log_fallback(model, "the delete set is too large for one transaction");
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

/// Deletes in batches if a single transaction is too small for the delete set.
///
/// A batch with too many cascaded documents is split into single documents. A single document with too many cascaded documents is
/// deleted in two phases, as without transactions.
async fn delete_in_batches(cx: &WriteContext, write: &WriteOperation) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access, cx.model);
    let mut total = WriteOutcome::default();
    let mut filter = write.filter().cloned().unwrap_or_default();
    // Another delete already removes the documents with a final tombstone.
    exclude_final_tombstones(&mut filter)?;
    let pinned = |ids: &[&RawBson]| -> Result<WriteOperation> {
        let mut batch = write.clone();
        if let Some(filter) = batch.filter_mut() {
            add_condition(filter, "_id", one_of(ids.iter().copied()))?;
        }
        Ok(batch)
    };
    loop {
        let find = find_matching(model.collection, &filter)
            .with_origin(Stage::REFERENCES.step("read a batch to delete"))
            .with_sort(write.sort_order().map(RawDocument::to_owned))
            .with_limit(if write.affects_at_most_one() {
                1
            } else {
                MAX_LINK_QUERY_DOCUMENTS as u64
            });
        let found = read_linked(access.to(model), find).await?;
        let batch_ids: Vec<_> = document_ids(&found).collect();
        if let [_, _, ..] = batch_ids.as_slice()
            && let Some(outcome) = run_in_transaction(cx, &pinned(&batch_ids)?).await?
        {
            total.add(outcome);
            continue;
        }
        for id in batch_ids {
            let single = pinned(&[id])?;
            let outcome = match run_in_transaction(cx, &single).await? {
                Some(outcome) => outcome,
                None => intent::run_standalone(cx, single).await?,
            };
            total.add(outcome);
        }
        if found.is_empty() || write.affects_at_most_one() {
            return Ok(total);
        }
    }
}

/// The kind of a write that changes references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferenceWrite {
    /// The documents are new, so no inverse has their ids.
    Insert,
    Update,
    Delete,
    /// A stored document gets the form of the current version. The inverses may match either form.
    Upgrade,
}

/// A write in a transaction, with the changes of inverses and the delete rules.
struct TransactionalWrite<'r> {
    cx: WriteContext,
    /// Access to documents of all scopes, including soft-deleted documents: for follow-up writes.
    full_access: Access,
    /// The maximum number of documents in the delete set. `None` means no limit.
    max_documents: Option<usize>,
    exceeds_limit: &'r AtomicBool,
    /// The soft delete or the restore that the write makes, if it can reach other documents.
    soft_delete: Option<SoftDeleteChange>,
}

impl TransactionalWrite<'_> {
    async fn run_attempt(
        self,
        model: &'static Model,
        mut write: WriteOperation,
    ) -> Result<WriteOutcome> {
        if self.soft_delete.is_none() {
            let outcome = self
                .try_find_and_modify(self.cx.access.to(model), &write)
                .await;
            let outcome = outcome.map_err(|error| self.cx.access.fail_transaction(error))?;
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
        let before = self.pin_matches(model, &mut write).await?;
        let cascade = self.collect_soft_cascade(model, &write, &before).await;
        let cascade = cascade.map_err(|error| self.cx.access.fail_transaction(error))?;
        let delete_set = match write.footprint() {
            Footprint::Removes => Some(self.collect_delete_set(model, &before).await?),
            Footprint::Inserts(_) | Footprint::Changes(_) => None,
        };
        let write_all = async {
            let outcome = self
                .write_with_inverses(self.cx.access.to(model), write, &before)
                .await?;
            if let Some(delete_set) = delete_set {
                self.delete_cascaded(model, &before, &delete_set).await?;
            }
            if let Some(cascade) = cascade {
                let full_access = self.full_access.to(model);
                cascade.write_cascaded(full_access, &before).await?;
            }
            Ok(outcome)
        };
        // The caller's transaction must not commit a reference without the matching change of the inverse.
        write_all
            .await
            .map_err(|error| self.cx.access.fail_transaction(error))
    }

    /// Updates a single document without a prior read. The command returns the old document, and the operators determine the new
    /// references.
    ///
    /// Returns `None` if the operators do not determine the new references.
    async fn try_find_and_modify(
        &self,
        access: ModelAccess<'_>,
        write: &WriteOperation,
    ) -> Result<Option<WriteOutcome>> {
        let model = access.model;
        let (Some(mut modify), Footprint::Changes(change)) =
            (write.as_find_and_modify(), write.footprint())
        else {
            return Ok(None);
        };
        if footprint::predict_references(change, model, &[]).is_none() {
            return Ok(None);
        }
        exclude_final_tombstones(&mut modify.filter)?;
        // The comparison below needs every field that the update can change.
        if model.upgrade.is_none() && footprint::changes_only_references(change, model) {
            modify.projection = Some(linked_document::link_projection(model, |side| side.stored)?);
        }
        let projection = modify.projection.clone();
        let found = self.cx.clone().run_next(modify.into()).await?;
        let Some(raw) = found.document else {
            return Ok(Some(WriteOutcome::default()));
        };
        let before = [LinkedDocument::from_stored(model, &raw)?];
        ensure_decided(model, &before)?;
        let after = footprint::predict_references(change, model, &before).unwrap_or_default();
        update_inverses(access, &before, &after, ReferenceWrite::Update).await?;
        let references_changed = (0..model.links().len()).any(|link| {
            let targets = |documents: &[LinkedDocument]| {
                let document = documents.first();
                document.map(|document| document.targets_of(link))
            };
            targets(&before) != targets(&after)
        });
        if references_changed {
            return Ok(Some(WriteOutcome::of_one(true)));
        }
        let find = access
            .find_matching(&ids_filter(document_ids(&before)))
            .with_origin(Stage::REFERENCES.step("read the stored references"))
            .with_projection(projection);
        let found = self.full_access.find_all(model, find).await?;
        Ok(Some(WriteOutcome::of_one(found.first() != Some(&raw))))
    }

    /// Reads the documents that match a write, and pins the filter of the write to the ids of these documents.
    async fn pin_matches(
        &self,
        model: &'static Model,
        write: &mut WriteOperation,
    ) -> Result<Vec<LinkedDocument>> {
        let sort = write.sort_order().map(RawDocument::to_owned);
        let affects_at_most_one = write.affects_at_most_one();
        let Some(filter) = write.filter_mut() else {
            return Ok(Vec::new());
        };
        exclude_final_tombstones(filter)?;
        // One document more than the maximum shows that the delete set exceeds the maximum.
        let limit = self.max_documents.map(|max| max as u64 + 1);
        let find = find_matching(model.collection, filter)
            .with_origin(Stage::REFERENCES.step("read the stored references"))
            .with_sort(sort)
            .with_limit(if affects_at_most_one { Some(1) } else { limit });
        let found = read_linked(self.cx.access.to(model), find).await?;
        ensure_decided(model, &found)?;
        add_condition(filter, "_id", one_of(document_ids(&found)))?;
        Ok(found)
    }

    /// Collects the delete set of the given documents, and checks that no `restrict` rule forbids the delete.
    async fn collect_delete_set(
        &self,
        model: &'static Model,
        before: &[LinkedDocument],
    ) -> Result<DeleteSet> {
        let mut delete_set = DeleteSet::new(false);
        let roots = before.to_vec();
        if !delete_set
            .collect_cascade(self.full_access.to(model), roots, self.max_documents)
            .await?
        {
            return Err(self.limit_error());
        }
        delete_set.ensure_unrestricted(&self.full_access).await?;
        Ok(delete_set)
    }

    /// Collects the documents that a soft delete or a restore of the given documents reaches.
    async fn collect_soft_cascade(
        &self,
        model: &'static Model,
        write: &WriteOperation,
        before: &[LinkedDocument],
    ) -> Result<Option<SoftCascade>> {
        let Some(change) = self.soft_delete.clone() else {
            return Ok(None);
        };
        // A restore can set references too.
        let after = match write.footprint() {
            Footprint::Changes(change) => footprint::predict_references(change, model, before),
            Footprint::Inserts(_) | Footprint::Removes => None,
        };
        let roots = after.as_deref().unwrap_or(before);
        let full_access = self.full_access.to(model);
        match SoftCascade::collect(full_access, change, roots, self.max_documents).await? {
            Some(cascade) => Ok(Some(cascade)),
            None => Err(self.limit_error()),
        }
    }

    /// Reports that the delete set is too large, and returns the error that ends the transaction.
    fn limit_error(&self) -> Error {
        self.exceeds_limit.store(true, Ordering::Relaxed);
        let message = "the delete set is too large for one transaction";
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Deletes the cascaded documents of a delete set, then detaches all deleted documents from the remaining referrers.
    async fn delete_cascaded(
        &self,
        model: &'static Model,
        deleted: &[LinkedDocument],
        delete_set: &DeleteSet,
    ) -> Result<()> {
        let full_access = &self.full_access;
        for part in delete_set.by_model() {
            let excluded = if part.model.collection == model.collection {
                deleted
            } else {
                &[]
            };
            let cascaded = DeleteSet::documents_except(part, excluded);
            if cascaded.is_empty() {
                continue;
            }
            let delete = DeleteOperation {
                collection: part.model.collection.into(),
                filter: ids_filter(document_ids(&cascaded)),
                multi: true,
                origin: Stage::REFERENCES.step("delete the cascaded documents"),
            };
            let delete = WriteOperation::Delete(delete);
            self.write_with_inverses(full_access.to(part.model), delete, &cascaded)
                .await?;
        }
        for part in delete_set.by_model() {
            detach_referrers(full_access.to(part.model), &part.documents).await?;
            clear_deleted(full_access.to(part.model), &part.documents, first_version()).await?;
        }
        Ok(())
    }

    /// Runs a write with the visibility of `access`, and updates inverses for the references that changed.
    async fn write_with_inverses(
        &self,
        access: ModelAccess<'_>,
        write: WriteOperation,
        before: &[LinkedDocument],
    ) -> Result<WriteOutcome> {
        let model = access.model;
        let full_access = &self.full_access;
        let mut after = Vec::new();
        let (mut kind, mut predicted) = (ReferenceWrite::Delete, None);
        match write.footprint() {
            Footprint::Inserts(documents) => {
                kind = ReferenceWrite::Insert;
                after = parallel::map(documents.iter(), |raw| {
                    LinkedDocument::from_stored(model, raw)
                })?;
            }
            Footprint::Changes(change) => {
                kind = ReferenceWrite::Update;
                predicted = footprint::predict_references(change, model, before);
            }
            Footprint::Removes => {}
        }
        let mut before = Cow::Borrowed(before);
        let outcome = match kind {
            ReferenceWrite::Delete => self.delete_documents(access, write, &mut before).await?,
            ReferenceWrite::Insert | ReferenceWrite::Update | ReferenceWrite::Upgrade => {
                self.cx.with_access(&access).run_next(write).await?
            }
        };
        let before = before.as_ref();
        if let Some(predicted) = predicted {
            after = predicted;
        } else if kind == ReferenceWrite::Update && !before.is_empty() {
            let filter = ids_filter(document_ids(before));
            let step = "read the new references";
            after = read_matching(full_access.to(model), step, &filter).await?;
        }
        update_inverses(access, before, &after, kind).await?;
        Ok(outcome)
    }

    /// Deletes documents, with the follow-up writes of the other kinds. Loads the spilled references of the documents.
    async fn delete_documents(
        &self,
        access: ModelAccess<'_>,
        write: WriteOperation,
        documents: &mut Cow<'_, [LinkedDocument]>,
    ) -> Result<WriteOutcome> {
        let model = access.model;
        let full_access = &self.full_access;
        let ids: Vec<_> = document_ids(documents).cloned().collect();
        let mut after_delete: Vec<AfterDelete> = Vec::new();
        for kind in MAINTAINERS {
            after_delete.extend(kind.before_delete(full_access.to(model), &ids).await?);
        }
        overflow_references::load_spilled_targets(full_access.to(model), documents).await?;
        let deleted = ids_filter(&ids);
        for kind in MAINTAINERS {
            kind.delete_parts(full_access.to(model), &deleted).await?;
        }
        let outcome = write.send(access).await?;
        for run in after_delete {
            run(full_access.clone()).await?;
        }
        Ok(outcome)
    }
}

/// Updates inverses for the difference between two states of documents. A new target must be visible to `access`.
async fn update_inverses(
    access: ModelAccess<'_>,
    before: &[LinkedDocument],
    after: &[LinkedDocument],
    kind: ReferenceWrite,
) -> Result<()> {
    // The session of a restore sees soft-deleted documents, and must not add references to them.
    let present = Access::clone(&access).with_visibility(Visibility::Present);
    let full_access = access.with_full_visibility();
    let mut inverse_batch = InverseBatch::new(&present, &full_access);
    let addition = match kind {
        ReferenceWrite::Insert => InverseChange::AddInserted,
        ReferenceWrite::Update | ReferenceWrite::Delete | ReferenceWrite::Upgrade => {
            InverseChange::Add
        }
    };
    for (position, link) in access.model.links().iter().enumerate() {
        // `references/overflow_references.rs` updates the inverses for an update of an overflow array.
        let overflows = access.model.overflow_of(&link.link_field).is_some();
        if kind == ReferenceWrite::Update && overflows {
            continue;
        }
        let removed = targets_only_in(before, after, position);
        let added = targets_only_in(after, before, position);
        inverse_batch
            .queue_changes(link, removed, added, addition)
            .await?;
    }
    inverse_batch.write_all().await
}

fn document_ids(documents: &[LinkedDocument]) -> impl Iterator<Item = &RawBson> {
    documents.iter().map(|document| &document.id)
}

/// Excludes documents with a final tombstone from a filter.
fn exclude_final_tombstones(filter: &mut RawDocumentBuf) -> Result<()> {
    add_conditions(filter, tombstone::not_final_raw()?)
}

/// Removes the values of deleted documents from other documents, for all kinds.
async fn clear_deleted(
    full_access: ModelAccess<'_>,
    deleted: &[LinkedDocument],
    version: i64,
) -> Result<()> {
    let deleted: Vec<_> = deleted.iter().map(LinkedDocument::as_deleted).collect();
    for kind in MAINTAINERS {
        kind.clear_deleted(full_access, &deleted, version).await?;
    }
    Ok(())
}

/// Whether documents of a model can have an intent record or a tombstone.
fn can_have_unfinished_work(access: ModelAccess<'_>) -> bool {
    !access.model.links().is_empty()
        || rules_targeting(access).next().is_some()
        || DeleteFollowUp::of_model(access.schema_models(), access.model) != DeleteFollowUp::None
}

/// Recovers abandoned work on the references of a model. A failure in one document does not stop the recovery of the rest.
async fn recover_model(access: ModelAccess<'_>, report: &mut RecoveryReport) -> Result<()> {
    if !can_have_unfinished_work(access) {
        // An earlier version of the model may have had links. Then the lease index of these links still exists.
        let indexes = access.backend().list_indexes(access.model.collection).await;
        let indexes = indexes.map_err(error::naming_model(access.model))?;
        let mut keys = indexes.iter().flat_map(|index| &index.keys);
        if !keys.any(|(path, _)| path == LEASE) {
            return Ok(());
        }
    }
    let (kind, batch) = (PendingKind::REFERENCES, MAX_LINK_QUERY_DOCUMENTS);
    let mut expired = ExpiredWork::new(access, kind, Stage::REFERENCES, batch);
    while let Some(batch) = expired.next_batch().await? {
        for id in batch.new {
            match intent::recover_document(access, &id).await {
                Ok(()) => report.recovered += 1,
                Err(error) => expired.record_failure(report, id, error).await?,
            }
        }
    }
    Ok(())
}

/// The maximum number of documents that one query of this module reads.
const MAX_LINK_QUERY_DOCUMENTS: usize = 1_000;

/// Returns the references that `state` has and `other` lacks: referrer ids in order, by target.
fn targets_only_in(
    state: &[LinkedDocument],
    other: &[LinkedDocument],
    link: usize,
) -> BTreeMap<OrderedId, Vec<RawBson>> {
    let other: BTreeMap<_, _> = other
        .iter()
        .map(|document| (OrderedId::from_id(&document.id), document.targets_of(link)))
        .collect();
    let mut referrers = BTreeMap::<_, Vec<_>>::new();
    for document in state {
        let other_targets = other.get(&OrderedId::from_id(&document.id));
        for target in document.targets_of(link) {
            if other_targets.is_none_or(|targets| !targets.contains(&target)) {
                referrers
                    .entry(target)
                    .or_default()
                    .push(document.id.clone());
            }
        }
    }
    referrers
}

/// Guards the targets of new references until the commit. Each target gets a write, which conflicts with a concurrent delete.
///
/// # Errors
///
/// [`Dangling`](ErrorKind::Dangling) if a target is missing or counts as deleted, and [`Conflict`](ErrorKind::Conflict) if the
/// delete of a target is undecided.
async fn guard_targets(
    access: &Access,
    link: &ReferenceLink,
    targets: Vec<OrderedId>,
) -> Result<()> {
    let model = (link.link_field.model)();
    for batch in id_batches(&targets, MAX_LINK_QUERY_DOCUMENTS) {
        let ids = id_values(batch)?;
        let mut filter = ids_filter(&ids);
        append_field(&mut filter, tombstone::TOKEN, field_missing())?;
        let guard = single_field_document(INVERSE_VERSION, ObjectId::new())?;
        let step = "guard the targets";
        let guarded = set_metadata(access.to(model), step, filter.clone(), guard).await?;
        if guarded == ids.len() as u64 {
            continue;
        }
        let targets = ids_filter(&ids);
        let found_targets = read_matching(access.to(model), "read the targets", &targets).await?;
        let found_targets: BTreeMap<_, _> = found_targets
            .iter()
            .map(|found| (OrderedId::from_id(&found.id), found))
            .collect();
        for id in batch {
            match found_targets.get(id).map(|found| found.tombstone) {
                Some(TombstoneState::Live) => {}
                // The other delete may still be rolled back.
                Some(TombstoneState::Provisional) => {
                    return Err(delete_undecided(model, &id.to_value()?));
                }
                Some(TombstoneState::Final) | None => {
                    return Err(missing_target(link, &id.to_value()?));
                }
            }
        }
    }
    Ok(())
}

/// Sets metadata of the documents that a filter matches, as [`update_metadata`].
async fn set_metadata(
    access: ModelAccess<'_>,
    step: &'static str,
    filter: RawDocumentBuf,
    fields: RawDocumentBuf,
) -> Result<u64> {
    update_metadata(access, step, filter, rawdoc! { "$set": fields }).await
}

/// Renews the lease on the intent records or the tombstones of the documents that a filter matches. Returns the number of
/// documents.
async fn renew_lease(access: ModelAccess<'_>, filter: RawDocumentBuf) -> Result<u64> {
    let lease = single_field_document(LEASE, access.lease().new_end())?;
    set_metadata(access, "renew the lease", filter, lease).await
}

/// Removes the lease, with the intent record or the tombstone, from the documents that a filter matches.
async fn remove_record(
    access: ModelAccess<'_>,
    step: &'static str,
    filter: RawDocumentBuf,
) -> Result<u64> {
    let record = single_field_document(RECORD, "")?;
    update_metadata(access, step, filter, rawdoc! { "$unset": record }).await
}

/// Updates metadata of documents. The version and the modification time of the documents stay the same. Returns the number of
/// documents.
async fn update_metadata(
    access: ModelAccess<'_>,
    step: &'static str,
    mut filter: RawDocumentBuf,
    change: RawDocumentBuf,
) -> Result<u64> {
    narrow_filter(access, &mut filter).await?;
    let update = UpdateOperation {
        collection: access.model.collection.into(),
        filter,
        change: DocumentChange::operators(change),
        multi: true,
        upsert: false,
        origin: Stage::REFERENCES.step(step),
    };
    Ok(access.update(update).await?.matched)
}
