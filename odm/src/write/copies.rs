//! Copies: fields that are filled from a source document and kept up to date.
//!
//! A *source* has a version, which every write to a copied field increments. A *dependent* records the source version of its
//! copies for each reference. A write replaces a copy only if the copy is older, and the write itself compares the versions.
//! Pending work can therefore run in any process, more than once, and in any order.
//!
//! - A write to a copied field records a pending *fan-out* in the same operation (`copies/fan_out.rs`). The fan-out starts after
//!   the write and updates all dependents that exist by then. At the end it removes the pending record by the token that it read.
//! - A write that adds a reference fills the copies (`copies/fill.rs`) and records a pending *revalidation* (`copies/revalidate.rs`).
//!   The source may have changed after the read, and the fan-out of that change may have finished before the dependent existed.
//!
//! If a fan-out misses a new dependent, the revalidation of that dependent sees the change.

mod check;
mod drift;
mod fan_out;
mod fill;
mod index;
mod layout;
mod lease;
mod pending;
mod refresh;
mod revalidate;
mod save;
mod source;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bson::RawDocument;

pub(crate) use check::{StaleCopy, find_stale_copies, refill_copy};
pub(crate) use drift::{find_drifted, snapshot_projection};
use fan_out::clear_copies;
use fill::put_field;
pub(crate) use fill::resolve_drafts;
pub(crate) use index::IndexedReferences;
use layout::{CopyGroup, copy_groups, dependent_groups, split_overflow_groups};
use pending::{FanOutProgress, PendingCopies};
pub(crate) use refresh::refresh_copies;
pub(crate) use save::prepare_save;
pub(crate) use source::SourceCache;

use super::{
    Footprint, WriteOperation, WriteOutcome,
    footprint::path_changes,
    maintainer::{
        DeclaredIndexes, DeleteFollowUp, DeletedDocument, Detach, Maintainer, Revalidation,
        WriteContext, WriteFuture,
    },
    metadata_update::{parse_document, to_raw_document},
    recovery,
    reference_scope::can_add_reference,
    version_clock::first_version,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture,
        operation::{DocumentChange, Stage},
    },
    metadata::copy::SOURCE_VERSION,
    pending::{blocked::is_rejection, expired::RecoveryReport, record::PendingKind},
    schema::Model,
    session::{
        access::{Access, ModelAccess},
        retry,
    },
};

/// The budget of a bounded fan-out: the maximum number of dependents that are updated before the write returns.
pub(crate) const MAX_BOUNDED_DEPENDENTS: usize = 500;

/// Copies and snapshots of fields, outside of overflow arrays.
#[derive(Debug)]
pub(super) struct Copies;

impl Maintainer for Copies {
    fn stage(&self) -> Stage {
        Stage::COPIES
    }

    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        let is_delete = matches!(footprint, Footprint::Removes);
        !is_delete && (cx.model.copies.has_filled() || is_source(cx.access.to(cx.model)))
    }

    fn reasons(&self, access: ModelAccess<'_>, footprint: &Footprint<'_>) -> Vec<String> {
        let model = access.model;
        let groups = copy_groups(model);
        let fills = |group: &CopyGroup| {
            let names = group.fields.iter();
            let names = names.map(|field| group.field_path(field.stored));
            let names = names.collect::<Vec<_>>().join("`, `");
            let source = (group.source_model)().collection;
            format!("`{}` fills `{names}` from {source}", group.reference_path())
        };
        match footprint {
            Footprint::Inserts(_) => groups.iter().map(fills).collect(),
            Footprint::Changes(change) => {
                let Some(update) = change.update() else {
                    return Vec::new();
                };
                let is_filled =
                    |group: &&CopyGroup| path_changes(update).any(|change| group.overlaps(change));
                let mut reasons: Vec<_> = groups.iter().filter(is_filled).map(fills).collect();
                let dependents: Vec<_> = dependent_groups(access.schema_models(), model).collect();
                let changed = pending::changed_copies(model, &dependents, update);
                reasons.extend(changed.map(|(group, field)| {
                    let copy = group.field_path(field.stored);
                    format!(
                        "`{}` is copied to `{copy}` of {}",
                        field.source_path, group.model.collection
                    )
                }));
                reasons
            }
            Footprint::Removes => {
                let dependents = dependent_groups(access.schema_models(), model);
                let cleared = dependents.filter(CopyGroup::is_clearing);
                let reasons = cleared.map(|group| {
                    let (reference, dependents) = (group.reference_path(), group.model.collection);
                    format!("the copies beside `{reference}` of {dependents} become null")
                });
                reasons.collect()
            }
        }
    }

    fn run(&'static self, mut cx: WriteContext, mut write: WriteOperation) -> WriteFuture {
        Box::pin(async move {
            let pending = prepare_write(&mut cx, &mut write).await?;
            match pending.is_empty() {
                true => cx.run_next(write).await,
                false => run_with_pending(cx, write, pending).await,
            }
        })
    }

    fn path_of_new_reference(&self, model: &'static Model, update: &RawDocument) -> Option<String> {
        let groups = copy_groups(model);
        let found = path_changes(update).find(|change| {
            let mut groups = groups.iter();
            groups.any(|group| {
                group.overlaps(*change) && can_add_reference(model, (group.source_model)(), change)
            })
        });
        found.map(|change| change.path.to_owned())
    }

    fn managed_paths(&self, model: &'static Model) -> Vec<String> {
        layout::managed_paths(model)
    }

    fn declarations(&self, model: &'static Model) -> BTreeMap<String, String> {
        let mut descriptions = BTreeMap::new();
        for group in copy_groups(model) {
            for field in group.fan_out_fields() {
                let source = (group.source_model)().collection;
                let description = format!(
                    "copy of {source}.{} by {}",
                    field.source_path, group.reference
                );
                descriptions.insert(group.field_path(field.stored), description);
            }
        }
        descriptions
    }

    fn add_indexes(&self, models: &[&'static Model], declared: &mut Vec<DeclaredIndexes>) {
        index::add_copy_indexes(models, declared);
    }

    fn pending_kinds(&self, access: ModelAccess<'_>) -> Vec<(&'static Model, PendingKind)> {
        let mut kinds = Vec::new();
        if is_source(access) {
            kinds.push((access.model, PendingKind::FAN_OUT));
        }
        if is_dependent(access.model) {
            kinds.push((access.model, PendingKind::REVALIDATE));
        }
        kinds
    }

    fn recover<'a>(
        &'a self,
        access: ModelAccess<'a>,
        report: &'a mut RecoveryReport,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(pending::recover_model(access, report))
    }

    fn delete_follow_up(&self, models: &[&'static Model], model: &'static Model) -> DeleteFollowUp {
        match dependent_groups(models, model).any(|group| group.is_clearing()) {
            true => DeleteFollowUp::OnReferrers,
            false => DeleteFollowUp::None,
        }
    }

    fn clear_deleted<'a>(
        &'a self,
        full_access: ModelAccess<'a>,
        deleted: &'a [DeletedDocument<'a>],
        version: i64,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(clear_copies(full_access, deleted, version))
    }

    fn extend_detach(
        &self,
        access: ModelAccess<'_>,
        change: &mut DocumentChange,
    ) -> Result<Detach> {
        let model = access.model;
        let mut detach = Detach::default();
        let (DocumentChange::Operators { update, .. }, true) = (change, model.copies.has_filled())
        else {
            return Ok(detach);
        };
        fill::null_copies(model, update)?;
        let dependents: Vec<_> = dependent_groups(access.schema_models(), model).collect();
        if let Some((fan_out, record)) = pending::add_pending_fan_out(access, &dependents, update)?
        {
            let pending = PendingCopies::of_fan_out(fan_out.0, fan_out.1);
            detach.conditional_record = Some(record);
            detach.follow_up = Some(Box::new(move |access| {
                pending.run_in_background(access.to(model));
            }));
        }
        Ok(detach)
    }
}

/// Snapshots in elements of overflow arrays. The elements have only snapshots, so the write gets no pending record.
#[derive(Debug)]
pub(super) struct ElementSnapshots;

impl Maintainer for ElementSnapshots {
    fn stage(&self) -> Stage {
        Stage::COPIES
    }

    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        let is_delete = matches!(footprint, Footprint::Removes);
        !is_delete && !cx.model.overflows.is_empty() && cx.model.copies.has_filled()
    }

    fn run(&'static self, mut cx: WriteContext, mut write: WriteOperation) -> WriteFuture {
        Box::pin(async move {
            fill_elements(&mut cx, &mut write).await?;
            cx.run_next(write).await
        })
    }
}

/// Whether an update can write a reference with copies or a struct that contains one.
pub(crate) fn writes_copied_reference(model: &'static Model, change: &DocumentChange) -> bool {
    let DocumentChange::Operators { update, .. } = change else {
        return false;
    };
    if !model.copies.has_filled() {
        return false;
    }
    let groups = copy_groups(model);
    path_changes(update).any(|change| groups.iter().any(|group| group.overlaps(change)))
}

/// Whether documents of a model have copies that need revalidation.
fn is_dependent(model: &'static Model) -> bool {
    model.copies.has_filled() && copy_groups(model).iter().any(CopyGroup::has_fan_out)
}

/// Whether other models copy from this model.
fn is_source(access: ModelAccess<'_>) -> bool {
    layout::dependent_models(access.schema_models(), access.model)
        .next()
        .is_some()
}

/// Returns the path of a copy in `model` that a delete of the source document sets to null.
pub(crate) fn cleared_path(model: &'static Model, source: &Model) -> Option<String> {
    let groups = copy_groups(model).into_iter();
    let mut groups = groups.filter(|group| (group.source_model)().collection == source.collection);
    groups.find_map(|group| {
        let mut fields = group.fan_out_fields();
        let cleared = fields.find(|field| field.clears)?;
        Some(group.field_path(cleared.stored))
    })
}

/// Fills new elements of overflow arrays, before the write decides between the owner document and chunk documents.
async fn fill_elements(cx: &mut WriteContext, write: &mut WriteOperation) -> Result<()> {
    let (_, groups) = split_overflow_groups(cx.model);
    if groups.is_empty() {
        return Ok(());
    }
    let (access, sources) = (cx.access.to(cx.model), &mut cx.sources);
    if let Some(documents) = write.documents_to_insert() {
        fill::fill_inserted(access, &groups, documents, sources).await?;
    } else if let Some(DocumentChange::Operators { update, .. }) = write.change_mut() {
        fill::fill_update(access, &groups, update, sources).await?;
    }
    Ok(())
}

/// Fills the copies that a write adds, and adds the pending records to the write. Returns the follow-up work.
async fn prepare_write(cx: &mut WriteContext, write: &mut WriteOperation) -> Result<PendingCopies> {
    let mut pending = PendingCopies::default();
    // No later stage reads the sources.
    let sources = &mut std::mem::take(&mut cx.sources);
    let access = cx.access.to(cx.model);
    let (groups, _) = split_overflow_groups(access.model);
    let dependents: Vec<_> = dependent_groups(access.schema_models(), access.model).collect();
    if let Some(documents) = write.documents_to_insert() {
        if !groups.is_empty() {
            pending.revalidation = fill::fill_inserted(access, &groups, documents, sources).await?;
            if let Some(token) = pending.revalidation {
                let sources = sources.copied_sources(&groups)?.into();
                cx.revalidation = Some(Revalidation { token, sources });
            }
        }
        if !dependents.is_empty() {
            for raw in documents {
                put_field(raw, SOURCE_VERSION, first_version().into())?;
            }
        }
        return Ok(pending);
    }
    let Some(change) = write.change_mut() else {
        return Ok(pending);
    };
    let DocumentChange::Operators { update, .. } = change else {
        let message = "copies cannot be maintained by a replacement, and nothing was written: use update operators";
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    if !groups.is_empty() {
        pending.revalidation = fill::fill_update(access, &groups, update, sources).await?;
    }
    if let Some((fan_out, record)) = pending::add_pending_fan_out(access, &dependents, update)? {
        index::ensure_indexed(&access, &dependents).await?;
        cx.conditional_record = Some(record);
        pending.fan_out = Some(fan_out);
    }
    Ok(pending)
}

/// Runs a write with pending copies, and then the follow-up work.
async fn run_with_pending(
    cx: WriteContext,
    write: WriteOperation,
    pending: PendingCopies,
) -> Result<WriteOutcome> {
    let (access, model) = (cx.access.clone(), cx.model);
    let mut transaction_result = None;
    if pending.starts_in_transaction() {
        transaction_result = run_with_fan_out(&cx, &write, &pending).await;
    }
    let sources = cx.revalidation.as_ref();
    let sources = sources.map(|revalidation| Arc::clone(&revalidation.sources));
    let (outcome, fan_out) = match transaction_result {
        Some(Ok((outcome, fan_out))) => (Ok(outcome), fan_out),
        Some(Err(error)) => (Err(error), FanOutProgress::NotStarted),
        None => (cx.run_next(write).await, FanOutProgress::NotStarted),
    };
    let is_confirmed = outcome
        .as_ref()
        .is_ok_and(|outcome| outcome.confirms_sources);
    let pending = pending.after_write(fan_out, sources, is_confirmed);
    match (&outcome, access.transaction_scope()) {
        (Ok(outcome), _) if outcome.matched == 0 => {}
        (Ok(_), None) => pending.run_after_write(access, model).await,
        // A failed operation may have written some documents.
        (Err(_), None) => pending.run_in_background(access.to(model)),
        // The documents are visible to other sessions only after the commit of the caller's transaction.
        (Ok(_), Some(_)) => pending.run_in_background(access.to(model)),
        (Err(_), Some(_)) => {}
    }
    outcome
}

/// Runs a write, and the fan-out within the budget, in one transaction. Returns `None` if a dependent rejects a copy: the write
/// then runs without the fan-out, which stays pending.
async fn run_with_fan_out(
    cx: &WriteContext,
    write: &WriteOperation,
    pending: &PendingCopies,
) -> Option<Result<(WriteOutcome, FanOutProgress)>> {
    let is_rejected = AtomicBool::new(false);
    let run_transaction = |access: Access| {
        let (cx, write, is_rejected) = (cx.with_access(&access), write.clone(), &is_rejected);
        is_rejected.store(false, Ordering::Relaxed);
        async move {
            let model = cx.model;
            let outcome = cx.run_next(write).await?;
            if access.transaction_scope().is_none() || outcome.matched == 0 {
                return Ok((outcome, FanOutProgress::NotStarted));
            }
            let fan_out = pending.fan_out_in_transaction(access.to(model)).await;
            let fan_out = fan_out.map_err(|error| {
                is_rejected.store(is_rejection(&error), Ordering::Relaxed);
                access.fail_transaction(error)
            });
            Ok((outcome, fan_out?))
        }
    };
    let result = recovery::run_transactional(cx.access.to(cx.model), run_transaction).await;
    let is_own = cx.access.transaction_scope().is_none();
    if result.is_err() && is_own && is_rejected.load(Ordering::Relaxed) {
        let reason = "a dependent rejects a copy: the fan-out stays pending";
        retry::log_fallback(cx.model, reason);
        return None;
    }
    Some(result)
}
