//! Rollups: counts, sums, averages, minimums, maximums and latest-N lists on a *parent* document, computed from the *children* that
//! refer to the parent.
//!
//! The *contribution* of a child follows from the fields of the child. The child records its last contribution to each parent.
//! The difference between the two is the delta for the parent, so no write needs to know the state before the write.
//!
//! - With transactions, a child, the recorded contributions and the parents are written together. If several writers meet at a
//!   parent, new children are only inserted and get a pending record; the next worker applies all of them with one write
//!   (`rollups/queue.rs`).
//! - On a standalone server, a write first records pending work in the child (`rollups/standalone.rs`). Each write of the parent
//!   compares and changes the rollup version, which was read before the children. A stale delta therefore never reaches the
//!   parent. In the same write, the parent notes the applied contribution until the child has recorded it. This prevents a
//!   contribution from being applied twice.
//!
//! The contributions change the *state* of a rollup. For a count, a sum and a latest-N list, the state is the field itself. An
//! average has a sum and a count as state, and a minimum or maximum has a list of one child. The field is then a computed field.
//!
//! A new parent can have children already. The insert records a pending recompute, which runs when the parent is visible
//! (`rollups/recompute.rs`). If the parent does not exist, a write of a child leaves the rollups to that recompute.

mod check;
mod child;
mod contribution;
mod guarded_insert;
mod parent;
mod parent_update;
mod queue;
mod recompute;
mod standalone;
mod sum;
mod transactional;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use bson::{Bson, Document, RawBson, RawDocumentBuf};

pub(crate) use check::{WrongCount, find_wrong_rollups};
use child::ChildState;
use contribution::{RollupGroup, child_fields, is_parent_model, rollup_groups};
use guarded_insert::GuardedInsert;
pub(crate) use queue::RollupQueues;
pub(crate) use recompute::recompute_parent;
use transactional::MissingParents;

use super::{
    Footprint, WriteOperation, WriteOutcome,
    maintainer::{
        AfterDelete, DeclaredIndexes, DeleteFollowUp, Detach, MAX_TRANSACTION_DELETES, Maintainer,
        Strategy, WriteContext, WriteFuture,
    },
    metadata_update::{MetadataUpdate, remove_records, set_at, to_raw_document},
    recovery,
    version_clock::first_version,
};
use crate::{
    Error, ErrorKind, Result,
    backend::{
        BoxFuture,
        operation::{Direction, DocumentChange, Index, Stage},
    },
    error,
    language::query::{append_field, id_filter},
    metadata::{self, pending::TOKEN, rollup::ROLLUP_VERSION},
    model::{ids::ids_filter, stored::edit_fields},
    pending::{
        expired::{ExpiredBatch, ExpiredWork, RecoveryReport},
        record::{PendingKind, PendingToken},
    },
    schema::{Model, Rollup, RollupComparison, RollupKind},
    session::{
        access::{Access, ModelAccess},
        retry,
        transaction_scope::TransactionAttempts,
    },
    write::footprint::with_operator,
};

/// The maximum number of children in a batch.
const MAX_CHILDREN_PER_BATCH: usize = 1_000;

/// The maximum number of attempts to write a document under contention.
const MAX_UPDATE_ATTEMPTS: u32 = 100;

/// Rollups of children.
#[derive(Debug)]
pub(super) struct Rollups;

impl Maintainer for Rollups {
    fn stage(&self) -> Stage {
        Stage::ROLLUPS
    }

    fn is_affected(&self, cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
        let is_insert = matches!(footprint, Footprint::Inserts(_));
        is_insert && is_parent_model(cx.model) || is_child_model(cx.access.to(cx.model))
    }

    fn reasons(&self, access: ModelAccess<'_>, footprint: &Footprint<'_>) -> Vec<String> {
        let model = access.model;
        let groups = rollup_groups(access.schema_models(), model).into_iter();
        let affected = groups.filter(|group| match footprint {
            Footprint::Inserts(_) | Footprint::Removes => true,
            Footprint::Changes(change) => {
                let update = change.update();
                update.is_none_or(|update| group.is_changed_by(update))
            }
        });
        let mut reasons: Vec<_> = affected
            .map(|group| {
                let names = group.rollups.iter().map(|rollup| rollup.stored);
                let names = names.collect::<Vec<_>>().join("`, `");
                let parents = group.parent_model.collection;
                format!("`{}` leads to `{names}` of {parents}", group.reference)
            })
            .collect();
        if is_parent_model(model) && matches!(footprint, Footprint::Inserts(_)) {
            let names = model.rollups.iter().map(|rollup| rollup.stored);
            let names = names.collect::<Vec<_>>().join("`, `");
            reasons.push(format!(
                "`{names}` of the new documents must count existing children"
            ));
        }
        reasons
    }

    fn run(&'static self, cx: WriteContext, write: WriteOperation) -> WriteFuture {
        Box::pin(run_write(cx, write))
    }

    fn managed_paths(&self, model: &'static Model) -> Vec<String> {
        let rollups = model.rollups.iter();
        rollups.map(|rollup| rollup.stored.to_owned()).collect()
    }

    fn declarations(&self, model: &'static Model) -> BTreeMap<String, String> {
        let rollups = model.rollups.iter();
        rollups
            .map(|rollup| (rollup.stored.to_owned(), describe_rollup(rollup)))
            .collect()
    }

    fn add_indexes(&self, models: &[&'static Model], declared: &mut Vec<DeclaredIndexes>) {
        for (model, indexes) in declared {
            let groups = rollup_groups(models, model);
            for group in &groups {
                Index::declare_on(group.reference.clone(), indexes);
                for rollup in &group.rollups {
                    let Some(list) = rollup.child_list() else {
                        continue;
                    };
                    // With an equal reference, a scan in reverse has the ascending order of a minimum.
                    let mut keys = vec![
                        (group.reference.clone(), Direction::Ascending),
                        (list.by, Direction::Descending),
                    ];
                    // An index cannot have a key twice.
                    if keys.iter().all(|(path, _)| path != "_id") {
                        keys.push(("_id".to_owned(), Direction::Descending));
                    }
                    let list_index = Index::new(keys);
                    if !indexes.iter().any(|index| index.serves_as(&list_index)) {
                        indexes.push(list_index);
                    }
                }
            }
            if !groups.is_empty() {
                indexes.push(Index::sparse_on(PendingKind::ROLLUP.lease_path()));
            }
            if is_parent_model(model) {
                indexes.push(Index::sparse_on(PendingKind::RECOMPUTE.lease_path()));
            }
        }
    }

    fn pending_kinds(&self, access: ModelAccess<'_>) -> Vec<(&'static Model, PendingKind)> {
        let mut kinds = Vec::new();
        if is_child_model(access) {
            kinds.push((access.model, PendingKind::ROLLUP));
        }
        if is_parent_model(access.model) {
            kinds.push((access.model, PendingKind::RECOMPUTE));
        }
        kinds
    }

    fn recover<'a>(
        &'a self,
        access: ModelAccess<'a>,
        report: &'a mut RecoveryReport,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(recover_model(access, report))
    }

    fn delete_follow_up(&self, models: &[&'static Model], model: &'static Model) -> DeleteFollowUp {
        match rollup_groups(models, model).is_empty() {
            true => DeleteFollowUp::None,
            false => DeleteFollowUp::WithinTransaction,
        }
    }

    fn before_delete<'a>(
        &'a self,
        full_access: ModelAccess<'a>,
        ids: &'a [RawBson],
    ) -> BoxFuture<'a, Result<Option<AfterDelete>>> {
        Box::pin(async move {
            let deleted = read_deleted_children(full_access, ids).await?;
            Ok(deleted.map(|children| {
                let model = full_access.model;
                let subtract = move |access: Access| -> BoxFuture<'static, Result<()>> {
                    Box::pin(async move {
                        let missing = subtract_deleted_children(access.to(model), children).await?;
                        missing.recompute_after_commit(&access);
                        Ok(())
                    })
                };
                Box::new(subtract) as AfterDelete
            }))
        })
    }

    fn mark_tombstone(&self, access: ModelAccess<'_>, set: &mut RawDocumentBuf) -> Result<()> {
        if !is_child_model(access) {
            return Ok(());
        }
        // The new token invalidates a concurrent worker that still applies the contributions from before the delete.
        let record = PendingToken::with_new_lease(access.lease()).to_raw()?;
        append_field(set, PendingKind::ROLLUP.record_path(), record)
    }

    fn finish_tombstone<'a>(
        &'a self,
        full_access: ModelAccess<'a>,
        id: &'a RawBson,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match is_child_model(full_access) {
                true => queue::apply_matching(full_access, id_filter(id)).await,
                false => Ok(()),
            }
        })
    }

    fn extend_detach(
        &self,
        access: ModelAccess<'_>,
        change: &mut DocumentChange,
    ) -> Result<Detach> {
        let model = access.model;
        let mut detach = Detach::default();
        if let DocumentChange::Operators { update, .. } = change
            && let Some(token) = mark_pending_if_changed(access, update)?
        {
            detach.follow_up = Some(Box::new(move |access| {
                apply_in_background(access.to(model), token);
            }));
        }
        Ok(detach)
    }
}

/// Returns a description of a rollup. The description changes with the declaration.
fn describe_rollup(rollup: &Rollup) -> String {
    let source = format!("{}.{}", rollup.collection, (rollup.reference)());
    let conditions = (rollup.when)().into_iter();
    let conditions: Vec<_> = conditions
        .map(|condition| {
            let value = &condition.value;
            match condition.comparison {
                RollupComparison::Eq => format!("{} {value:?}", condition.path),
                other => format!("{} {} {value:?}", condition.path, other.operator()),
            }
        })
        .collect();
    let value = match rollup.kind {
        RollupKind::Count => "count".to_owned(),
        RollupKind::Sum(field) => format!("sum of {}", field()),
        RollupKind::Average(field) => format!("average of {}", field()),
        RollupKind::Min(field) => format!("minimum of {}", field()),
        RollupKind::Max(field) => format!("maximum of {}", field()),
        RollupKind::Latest { max, by, fields } => {
            format!("latest {max} by {}: {fields:?}", by())
        }
    };
    format!("{value} of {source} when {conditions:?}")
}

/// Whether documents of a model are children: another model has rollups of this model.
fn is_child_model(access: ModelAccess<'_>) -> bool {
    !rollup_groups(access.schema_models(), access.model).is_empty()
}

/// Records pending work in an update that can change the contributions of the documents. Returns the token.
fn mark_pending_if_changed(
    access: ModelAccess<'_>,
    update: &mut RawDocumentBuf,
) -> Result<Option<PendingToken>> {
    let groups = rollup_groups(access.schema_models(), access.model);
    if !groups.iter().any(|group| group.is_changed_by(update)) {
        return Ok(None);
    }
    let token = PendingToken::with_new_lease(access.lease());
    let (path, record) = (PendingKind::ROLLUP.record_path(), token.to_raw()?);
    *update = with_operator(update, "$set", path, record)?;
    Ok(Some(token))
}

/// Runs a write and updates the rollups of the parents. The outcome says whether the update of the parents also shows that the copied
/// sources did not change.
async fn run_write(cx: WriteContext, mut write: WriteOperation) -> Result<WriteOutcome> {
    let (access, model) = (cx.access.clone(), cx.model);
    let new_parents = initialize_parents(access.to(model), &mut write)?;
    let groups = rollup_groups(access.schema_models(), model);
    let result = if groups.is_empty() {
        cx.run_next(write).await
    } else if write.documents_to_insert().is_some() {
        insert_children(cx, &groups, write).await
    } else if write.change().is_some() {
        update_children(cx, write).await
    } else {
        delete_children(cx, write).await
    };
    // Outside of a transaction, a failed insert may have stored some of the documents.
    let is_stored = result.is_ok() || access.transaction_scope().is_none();
    if let (Some((token, initial_version)), true) = (new_parents, is_stored) {
        queue::run_in_background(&access, async move |access| {
            recompute::recompute_new_parents(access.to(model), token, initial_version).await
        });
    }
    result
}

/// Initializes the rollups of new parents and records a pending recompute. Returns the token and the initial rollup version.
fn initialize_parents(
    access: ModelAccess<'_>,
    write: &mut WriteOperation,
) -> Result<Option<(PendingToken, i64)>> {
    let model = access.model;
    if !is_parent_model(model) {
        return Ok(None);
    }
    let Some(documents) = write.documents_to_insert() else {
        return Ok(None);
    };
    let token = PendingToken::with_new_lease(access.lease());
    let initial_version = first_version();
    let rollups = model.rollups.iter().map(|rollup| rollup.stored);
    let names: Vec<_> = rollups.chain([metadata::FIELD]).collect();
    for raw in documents {
        edit_fields(raw, &names, |fields| {
            for rollup in model.rollups {
                set_at(fields, &rollup.state_path(), rollup.empty_state());
            }
            set_at(fields, ROLLUP_VERSION, initial_version);
            let pending_path = PendingKind::RECOMPUTE.record_path();
            set_at(fields, pending_path, token.to_document());
            Ok(())
        })?;
    }
    Ok(Some((token, initial_version)))
}

/// Inserts children. The parents are updated in the same transaction or, under contention, after the insert.
async fn insert_children(
    cx: WriteContext,
    groups: &[RollupGroup],
    write: WriteOperation,
) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access.clone(), cx.model);
    // While other children are applied in batches, a transaction would end in a conflict. Insert without the parents instead.
    let updates_directly =
        access.transaction_scope().is_some() || !queue::is_busy(access.to(model));
    let is_transactional = cx.strategy == Strategy::Transactional;
    if updates_directly && is_transactional {
        let work = |access: Access| {
            let (cx, write) = (cx.with_access(&access), write.clone());
            async move { transactional::insert_with_parents(cx, groups, write).await }
        };
        let result = access
            .run_with_attempts(TransactionAttempts::Single, work)
            .await;
        match result {
            Err(error) if error.is_conflict() && access.transaction_scope().is_none() => {
                let reason =
                    "another write changed a parent: the rollups are updated after the insert";
                retry::log_fallback(model, reason);
            }
            // The transaction was rolled back completely: no document was inserted.
            Err(error) if access.transaction_scope().is_none() => {
                return Err(error.with_inserted(0));
            }
            result => return result,
        }
    }
    let mut write = write;
    let token = PendingToken::with_new_lease(access.lease());
    let (mut children, fields) = (Vec::new(), child_fields(groups));
    for raw in write.documents_to_insert().into_iter().flatten() {
        edit_fields(raw, &fields, |document| {
            for group in groups {
                let contributions = group.contributions_of(document)?;
                let record = contributions
                    .iter()
                    .map(|contribution| contribution.to_record(false))
                    .collect();
                group.write_record(document, record);
            }
            let pending_path = PendingKind::ROLLUP.record_path();
            set_at(document, pending_path, token.to_document());
            children.push(ChildState::from_document(groups, document)?);
            Ok(())
        })?;
    }
    let full_access = access.with_full_visibility();
    let guarded_insert = match updates_directly && !is_transactional {
        true => {
            let revalidation = cx.revalidation.as_ref();
            GuardedInsert::read_parents(&full_access, groups, &children, revalidation).await?
        }
        false => None,
    };
    let mut result = cx.run_next(write).await;
    if let (Ok(outcome), Some(guarded_insert)) = (&mut result, guarded_insert) {
        let confirms_sources = guarded_insert.confirms_sources();
        let applied = guarded_insert
            .apply_contributions(full_access.to(model), groups, &children)
            .await;
        match applied {
            Ok(true) => {
                outcome.confirms_sources = confirms_sources;
                return result;
            }
            Ok(false) => {
                let reason = "another write changed a parent or a child: the rollups are updated from the record";
                retry::log_fallback(model, reason);
            }
            Err(error) => {
                let reason = format_args!("{error}: the rollups are updated from the record");
                retry::log_fallback(model, reason);
            }
        }
    }
    // An insert of several documents can fail after some of the documents are stored.
    queue::apply_queued(access.to(model), token).await;
    result
}

/// Updates children and applies the changed contributions.
async fn update_children(cx: WriteContext, mut write: WriteOperation) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access, cx.model);
    let Some(DocumentChange::Operators { update, .. }) = write.change_mut() else {
        let message = "rollups cannot be maintained by a replacement, and nothing was written: use update operators";
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    let Some(token) = mark_pending_if_changed(access.to(model), update)? else {
        return cx.run_next(write).await;
    };
    if cx.strategy != Strategy::Transactional {
        let access = access.clone();
        let result = cx.run_next(write).await;
        queue::apply_queued(access.to(model), token).await;
        return result;
    }
    let work = |access: Access| {
        let (cx, write) = (cx.with_access(&access), write.clone());
        async move {
            let outcome = cx.run_next(write).await?;
            if outcome.matched > 0 {
                let filter = token.token_filter(PendingKind::ROLLUP)?;
                let children = access.to(model);
                let applied = transactional::apply_contributions(children, filter, true).await;
                applied.map_err(|error| access.fail_transaction(error))?;
            }
            Ok(outcome)
        }
    };
    recovery::run_transactional(access.to(model), work).await
}

/// Deletes children and subtracts the contributions from the parents.
async fn delete_children(cx: WriteContext, write: WriteOperation) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access, cx.model);
    // A delete with cascades or references tells this stage which documents are deleted.
    if cx.next.deletes_referenced(&cx) {
        return cx.run_next(write).await;
    }
    let mut outcome = WriteOutcome::default();
    loop {
        let limit = access
            .transaction_scope()
            .is_none()
            .then_some(MAX_TRANSACTION_DELETES);
        let is_parent_missing = AtomicBool::new(false);
        let work = |access: Access| {
            let (cx, write) = (cx.with_access(&access), write.clone());
            let is_parent_missing = &is_parent_missing;
            async move { transactional::delete_with_parents(cx, write, limit, is_parent_missing).await }
        };
        match access.run_transactional(work).await {
            // A missing parent may be inserted concurrently. Delete with tombstones instead, so that the recompute of the parent
            // sees the deletes.
            Err(_) if is_parent_missing.load(Ordering::Relaxed) => {
                retry::log_fallback(model, "a parent is missing: the delete runs in two phases");
                let cx = WriteContext {
                    strategy: Strategy::TwoPhase,
                    ..cx
                };
                outcome.add(cx.run_next(write).await?);
                return Ok(outcome);
            }
            Ok((batch_outcome, is_complete)) => {
                outcome.add(batch_outcome);
                if is_complete {
                    return Ok(outcome);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Children that are deleted in the current transaction.
struct DeletedChildren {
    groups: Vec<RollupGroup>,
    children: Vec<ChildState>,
}

/// Reads the recorded contributions of documents that are deleted in the current transaction. `None` if the model has no rollups.
async fn read_deleted_children(
    access: ModelAccess<'_>,
    ids: &[RawBson],
) -> Result<Option<DeletedChildren>> {
    let groups = rollup_groups(access.schema_models(), access.model);
    if groups.is_empty() {
        return Ok(None);
    }
    let filter = ids_filter(ids);
    let mut children = ChildState::read_matching(access, &groups, &filter).await?;
    children
        .iter_mut()
        .for_each(ChildState::remove_contributions);
    Ok(Some(DeletedChildren { groups, children }))
}

/// Subtracts the contributions of deleted children. Returns the parents that do not exist.
async fn subtract_deleted_children(
    access: ModelAccess<'_>,
    deleted: DeletedChildren,
) -> Result<MissingParents> {
    let DeletedChildren { groups, children } = deleted;
    let found_parents = transactional::update_parents(access, &groups, &children).await?;
    MissingParents::find_missing(&found_parents, &groups, &children)
}

/// Applies the contributions of a write in the background: the caller does not wait.
fn apply_in_background(access: ModelAccess<'_>, token: PendingToken) {
    let model = access.model;
    queue::run_in_background(&access, async move |access| {
        queue::apply_queued(access.to(model), token).await;
        Ok(())
    });
}

/// Recovers the abandoned rollup work of a model. A failure does not stop the remaining work.
async fn recover_model(access: ModelAccess<'_>, report: &mut RecoveryReport) -> Result<()> {
    for (_, kind) in Rollups.pending_kinds(access) {
        let batch = MAX_CHILDREN_PER_BATCH;
        let mut expired = ExpiredWork::new(access, kind, Stage::ROLLUPS, batch);
        while let Some(ExpiredBatch { new, repeated }) = expired.next_batch().await? {
            for id in repeated {
                report.record_error(still_pending_error(access.model, kind, &id))?;
            }
            if new.is_empty() {
                continue;
            }
            let result = match kind {
                PendingKind::ROLLUP => {
                    let filter = ids_filter(&new);
                    queue::apply_matching(access, filter).await
                }
                _ => recompute::recompute_abandoned(access, &new).await,
            };
            match result {
                Ok(()) => report.recovered += new.len() as u64,
                Err(error) => {
                    report.record_error(error)?;
                    expired.exclude(new);
                }
            }
        }
    }
    Ok(())
}

/// Returns the error of a document that still has pending work after a successful update.
fn still_pending_error(model: &Model, kind: PendingKind, id: &RawBson) -> Error {
    let field = kind.record_path();
    let message = format!(
        "`{field}` is still set after a successful rollup update: a process with a slow clock keeps changing the document, or `{field}.{TOKEN}` is \
         missing; remove `{field}`, then run `db.repair()`"
    );
    let error = Error::new(ErrorKind::StillPending, message).with_path(field);
    let error = match Bson::try_from(id.clone()) {
        Ok(id) => error.with_id(id),
        Err(_) => error,
    };
    error::naming_model(model)(error)
}

/// Returns an update of the metadata of rollups in the documents that a filter matches.
fn rollup_update(
    step: &'static str,
    filter: &Document,
    update: Document,
) -> Result<MetadataUpdate> {
    let (origin, filter) = (Stage::ROLLUPS.step(step), to_raw_document(filter)?);
    Ok(MetadataUpdate::new(origin, filter, update))
}

/// Removes the pending work of one token from documents.
async fn clear_pending(
    access: ModelAccess<'_>,
    kind: PendingKind,
    token: PendingToken,
) -> Result<u64> {
    let filter = token.token_filter(kind)?;
    remove_records(access, Stage::ROLLUPS, kind, filter).await
}
