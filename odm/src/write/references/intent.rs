//! References with delete rules without transactions: on a standalone server, and for deletes too large for one transaction.
//!
//! A write that may change references runs in steps:
//!
//! - Write an intent record into the referrer: the old references, and the references that the write may add.
//! - Add the referrer to the inverses of new targets.
//! - Write the change, which marks the intent record as committed.
//! - Remove the referrer from the inverses of old targets.
//! - Remove the intent record.
//!
//! A missing target or a full inverse aborts the write before the change. Any process can recover an abandoned intent record. If
//! the write did not happen, recovery removes the new inverse entries. If it did, recovery removes the old entries. An inserted
//! document exists before the inverse entries do; if an entry fails, the insert is rolled back.
//!
//! Each write of an inverse compares and changes the inverse version, which is read before the reference. So a write based on an
//! outdated reference has no effect. A delete writes a tombstone first, and a document with a tombstone accepts no new referrers.
//!
//! Without an inverse, a write checks the target after the intent record is stored, and a delete searches for referrers after the
//! tombstone is stored. So at least one of them detects the conflict. A provisional tombstone says that a `restrict` rule may
//! still forbid the delete: meanwhile, new referrers wait.

mod insert_batch;
mod inverse_update;
mod prepare_delete;
mod stored_state;
mod two_phase_delete;

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use bson::{RawBson, RawDocument, RawDocumentBuf, oid::ObjectId};

pub(super) use inverse_update::sync_inverse;
use inverse_update::{add_to_inverses, remove_from_inverses};
use prepare_delete::{
    decide_delete, finalize_change, may_restrict_each_other, release_cascaded, resolve_tombstone,
};
use stored_state::{
    StoredState, add_idle_condition, find_by_id, find_state, ids_by_link, intent_filter,
    provisional_tombstone_filter,
};
use two_phase_delete::{delete_document, delete_tombstoned};

use super::{
    MAX_LINK_QUERY_DOCUMENTS,
    footprint::ids_below_steps,
    linked_document::{LinkedDocument, read_linked},
    overflow_references, recover_model, remove_record, set_metadata, update_metadata,
    validate::{insert_abandoned, is_reference_error, too_much_contention},
};
use crate::{
    ErrorKind, Result,
    backend::{
        BoxFuture,
        operation::{DocumentChange, InsertOperation, Stage},
    },
    language::query::{append_field, equal_to, field_missing, id_filter, single_field_document},
    metadata::{
        self,
        references::{
            INTENT_ABORTED, INTENT_COMMITTED, INTENT_NEW, INTENT_OLD, INTENT_TOKEN,
            INVERSE_VERSION, LEASE, TombstoneState, tombstone,
        },
    },
    model::{
        ids::{OrderedId, id_array, id_values, none_of},
        stored::{edit_fields, set_at},
    },
    pending::expired::RecoveryReport,
    schema::Model,
    session::{
        access::{ModelAccess, add_condition, find_matching},
        retry, task,
    },
    write::{
        Footprint, WriteOperation, WriteOutcome,
        footprint::{Operator, path_changes, with_operator},
        maintainer::{WriteContext, check_intent, mark_tombstone},
    },
};

/// The maximum number of attempts after conflicts with concurrent writes.
const MAX_CONFLICT_ATTEMPTS: u32 = 100;

/// Runs a write document by document, with the changes of inverses and the delete rules.
pub(super) async fn run_standalone(
    cx: &WriteContext,
    write: WriteOperation,
) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access, cx.model);
    if let Footprint::Inserts(documents) = write.footprint() {
        let documents = documents.to_vec();
        let inserted = insert_with_intents(access.to(model), documents).await?;
        return Ok(WriteOutcome::of(inserted));
    }
    let sort = write.sort_order().map(RawDocument::to_owned);
    let filter = write.filter().cloned().unwrap_or_default();
    let is_delete = matches!(write.footprint(), Footprint::Removes);
    let limit = match (write.affects_at_most_one(), is_delete) {
        (true, _) => Some(1),
        // The next query finds the remaining documents.
        (false, true) => Some(MAX_LINK_QUERY_DOCUMENTS as u64),
        (false, false) => None,
    };
    // A referrer among the deleted documents may restrict the delete of its target. After the delete of the referrer, the target
    // can follow.
    let retries_restricted = is_delete
        && !write.affects_at_most_one()
        && may_restrict_each_other(access.with_full_visibility().to(model));
    let (mut restricted_ids, mut restriction, mut is_progress) = (Vec::new(), None, false);
    let mut total = WriteOutcome::default();
    loop {
        let mut filter = filter.clone();
        if !restricted_ids.is_empty() {
            add_condition(&mut filter, "_id", none_of(&restricted_ids))?;
        }
        let find = find_matching(model.collection, &filter)
            .with_origin(Stage::REFERENCES.step("read the stored references"))
            .with_sort(sort.clone())
            .with_limit(limit);
        let matches = read_linked(access.to(model), find).await?;
        let mut is_gone = false;
        for document in &matches {
            let outcome = match is_delete {
                true => delete_document(access.to(model), &write, &document.id).await,
                false => {
                    let run_write = |write| cx.clone().with_intent().run_next(write);
                    change_with_intent(access.to(model), &write, &document.id, run_write).await
                }
            };
            let outcome = match outcome {
                Err(error) if retries_restricted && error.kind() == ErrorKind::Restricted => {
                    restricted_ids.push(document.id.clone());
                    restriction = Some(error);
                    continue;
                }
                outcome => outcome?,
            };
            is_progress = true;
            is_gone |= outcome.is_none();
            total.add(outcome.unwrap_or_default());
        }
        let is_done = match write.affects_at_most_one() {
            // If a concurrent write removed or changed the document, look for a further match.
            true => !is_gone,
            false => !is_delete,
        };
        if matches.is_empty() && !restricted_ids.is_empty() && is_progress {
            (restricted_ids, is_progress) = (Vec::new(), false);
        } else if matches.is_empty() || is_done {
            return match restriction.filter(|_| !restricted_ids.is_empty()) {
                Some(error) => Err(error),
                None => Ok(total),
            };
        }
    }
}

/// Inserts documents in order, each with an intent record. An invalid reference rolls the document back and ends the insert.
async fn insert_with_intents(
    access: ModelAccess<'_>,
    documents: Vec<RawDocumentBuf>,
) -> Result<u64> {
    let mut remaining = documents.as_slice();
    while !remaining.is_empty() {
        let (batch, later) =
            remaining.split_at(insert_batch::first_batch_len(access.model, remaining));
        let outcome = match batch {
            [document] => insert_with_intent(access, document).await,
            batch => insert_batch::insert_batch(access, batch).await,
        };
        let stored = documents.len() - remaining.len();
        outcome.map_err(|error| error.after_stored(stored))?;
        remaining = later;
    }
    Ok(documents.len() as u64)
}

/// Inserts a document with an intent record. An invalid reference rolls the document back.
async fn insert_with_intent(access: ModelAccess<'_>, raw: &RawDocument) -> Result<()> {
    let model = access.model;
    let id = LinkedDocument::from_stored(model, raw)?.id;
    let token = ObjectId::new();
    let write = InsertOperation {
        collection: model.collection.into(),
        documents: vec![with_insert_intent(access, raw, token)?],
        ordered: true,
        origin: Stage::REFERENCES.step("insert with an intent record"),
    };
    access.insert(write).await?;
    if model.links().is_empty() {
        return Ok(());
    }
    match complete_insert(access, &id, token).await? {
        Existence::Present => Ok(()),
        Existence::Gone => Err(insert_abandoned(model, &id)),
    }
}

/// Whether a document exists after a write with an intent record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existence {
    Present,
    /// Recovery has rolled the insert back, or a third process has deleted the document.
    Gone,
}

/// Adds an inserted document to the inverses of its targets. Rolls the insert back if an addition fails.
async fn complete_insert(
    access: ModelAccess<'_>,
    id: &RawBson,
    token: ObjectId,
) -> Result<Existence> {
    let Some(found) = find_unless_rolled_back(access, id, token).await? else {
        return Ok(Existence::Gone);
    };
    let additions = add_to_inverses(access, &found, token).await;
    if let Err(error) = additions {
        return match abort_insert(access, id, token).await? {
            Existence::Gone => Err(error),
            // Meanwhile the target got room, or was inserted.
            Existence::Present => Ok(Existence::Present),
        };
    }
    complete_intent(access, id, token).await
}

/// Rolls an insert back: removes the document, and the entries in the inverses of its targets. The document stays present if a
/// concurrent recovery has completed the insert.
async fn abort_insert(access: ModelAccess<'_>, id: &RawBson, token: ObjectId) -> Result<Existence> {
    let mut set = tombstone::set_final(token)?;
    mark_tombstone(access, &mut set)?;
    let filter = intent_filter(id, token)?;
    if set_metadata(access, "abort the insert", filter, set).await? == 1 {
        recover_document(access, id).await?;
        return Ok(Existence::Gone);
    }
    // A concurrent recovery has completed the insert, or has rolled the insert back.
    let found = find_unless_rolled_back(access, id, token).await?;
    Ok(match found {
        Some(found) if found.tombstone.is_none() => Existence::Present,
        _ => Existence::Gone,
    })
}

/// Returns a document with the intent record of an insert, and with a new inverse version. The new version tells the document
/// from a deleted document with the same `_id`.
fn with_insert_intent(
    access: ModelAccess<'_>,
    raw: &RawDocument,
    token: ObjectId,
) -> Result<RawDocumentBuf> {
    let mut document = raw.to_owned();
    edit_fields(&mut document, &[metadata::FIELD], |metadata| {
        if !access.model.inverses.is_empty() {
            set_at(metadata, INVERSE_VERSION, token);
        }
        if !access.model.links().is_empty() {
            set_at(metadata, INTENT_TOKEN, token);
            set_at(metadata, INTENT_COMMITTED, true);
            set_at(metadata, LEASE, access.lease().new_end());
        }
        Ok(())
    })?;
    Ok(document)
}

/// Changes a single document by `run_write`, with an intent record. Returns `None` if the document is missing or does not match
/// the filter of the write.
///
/// # Errors
///
/// [`Conflict`](ErrorKind::Conflict) after too many conflicts, and the errors of new references.
pub(super) async fn change_with_intent<C, F>(
    access: ModelAccess<'_>,
    write: &WriteOperation,
    id: &RawBson,
    run_write: C,
) -> Result<Option<WriteOutcome>>
where
    C: Fn(WriteOperation) -> F + Send + Sync,
    F: Future<Output = Result<WriteOutcome>> + Send,
{
    let model = access.model;
    for attempt in 1..=MAX_CONFLICT_ATTEMPTS {
        let mut write = write.clone();
        let mut filter = filter_for_document(&write, id)?;
        let Some(found) = find_state(access, "read the document", &filter).await? else {
            return Ok(None);
        };
        if found.is_in_use() {
            wait_or_recover(access, &found, attempt).await?;
            continue;
        }
        let token = ObjectId::new();
        let mut intent = single_field_document(INTENT_TOKEN, token)?;
        let removed_ids = overflow_references::removed_by_change(model, write.change());
        let old_ids = found.record_references(model, &removed_ids.named)?;
        // The value that a `$rename` moves into a reference must stay the same until the write.
        let renamed = moved_values(access, write.change(), id).await?;
        for (source, value) in &renamed {
            add_condition(&mut filter, source, unchanged_value(value.as_ref())?)?;
        }
        let new_ids = intended_ids(model, write.change(), &renamed)?;
        overflow_references::ensure_intent_fits(model, &old_ids, &new_ids)?;
        append_field(&mut intent, INTENT_OLD, old_ids)?;
        append_field(&mut intent, INTENT_NEW, new_ids.clone())?;
        append_field(&mut intent, LEASE, access.lease().new_end())?;
        let mut unchanged = filter.clone();
        found.add_unchanged_condition(&mut unchanged)?;
        let recorded = set_metadata(access, "record the intent", unchanged, intent).await?;
        if recorded == 0 {
            retry::pause_before_retry("the document has changed since the read", attempt).await;
            continue;
        }
        // The intent record keeps concurrent writes from changing the references of this document.
        let recorded =
            record_spilled_references(access, &found, (token, &new_ids), removed_ids).await;
        if !matches!(recorded, Ok(true)) {
            abort_intent(access, id, token).await?;
            recorded?;
            let reason = "the spilled references have changed since the read";
            retry::pause_before_retry(reason, attempt).await;
            continue;
        }
        if let Err(error) = check_intent(access, id, &new_ids).await {
            abort_intent(access, id, token).await?;
            if error.kind() != ErrorKind::Conflict {
                return Err(error);
            }
            // The process of the other write may have died.
            let full_access = access.with_full_visibility();
            recover_model(full_access.to(model), &mut RecoveryReport::default()).await?;
            retry::pause_before_retry("a concurrent change of references is undecided", attempt)
                .await;
            continue;
        }
        let additions = match find_by_id(access, "read the new references", id).await? {
            Some(found) => add_to_inverses(access, &found, token).await,
            None => return Ok(None),
        };
        if let Err(error) = additions {
            abort_intent(access, id, token).await?;
            return Err(error);
        }
        add_condition(&mut filter, INTENT_TOKEN, equal_to(token))?;
        add_condition(&mut filter, INTENT_ABORTED, field_missing())?;
        if let Some(write_filter) = write.filter_mut() {
            *write_filter = filter;
        }
        if let Some(DocumentChange::Operators { update, .. }) = write.change_mut() {
            *update = with_operator(update, "$set", INTENT_COMMITTED, true.into())?;
        }
        let outcome = run_write(write).await;
        if outcome.as_ref().is_ok_and(|outcome| outcome.matched > 0) {
            complete_intent(access, id, token).await?;
            return outcome.map(Some);
        }
        // The write was rejected, a concurrent write changed the document, or a recovery aborted the intent. In each case the
        // document is unchanged.
        abort_intent(access, id, token).await?;
        outcome?;
        retry::pause_before_retry("the document does not match any more", attempt).await;
    }
    Err(too_much_contention(model, id))
}

/// Adds the spilled references that a change may remove to the intent record. Returns `false` if a recovery aborted the intent.
async fn record_spilled_references(
    access: ModelAccess<'_>,
    found: &StoredState,
    (token, new_ids): (ObjectId, &RawDocument),
    mut removed_ids: overflow_references::RemovedSpilledIds,
) -> Result<bool> {
    if removed_ids.unknown.is_empty() {
        return Ok(true);
    }
    let id = &found.linked.id;
    for rule in std::mem::take(&mut removed_ids.unknown) {
        let spilled = rule
            .overflow_targets(&access.with_full_visibility(), id)
            .await?;
        let resident = found.linked.targets_of(rule.link_index);
        let spilled = id_values(spilled.difference(&resident))?;
        if id_array(&spilled).as_bytes().len() > overflow_references::MAX_ADDED_BYTES {
            let max_bytes = overflow_references::MAX_INTENT_BYTES;
            let error = overflow_references::intent_too_large(rule.model, rule.link, max_bytes);
            return Err(error);
        }
        removed_ids.named.insert(rule.link_index, spilled);
    }
    let mut filter = intent_filter(id, token)?;
    append_field(&mut filter, INTENT_ABORTED, field_missing())?;
    let old_ids = found.record_references(access.model, &removed_ids.named)?;
    overflow_references::ensure_intent_fits(access.model, &old_ids, new_ids)?;
    let mut set = single_field_document(INTENT_OLD, old_ids)?;
    append_field(&mut set, LEASE, access.lease().new_end())?;
    Ok(set_metadata(access, "record the old references", filter, set).await? == 1)
}

/// Returns the filter of a write, restricted to a single document.
fn filter_for_document(write: &WriteOperation, id: &RawBson) -> Result<RawDocumentBuf> {
    let mut filter = write.filter().cloned().unwrap_or_default();
    add_condition(&mut filter, "_id", equal_to(id.clone()))?;
    Ok(filter)
}

/// Returns the values of the fields that a `$rename` moves.
async fn moved_values(
    access: ModelAccess<'_>,
    change: Option<&DocumentChange>,
    id: &RawBson,
) -> Result<Vec<(String, Option<RawBson>)>> {
    let model = access.model;
    let Some(DocumentChange::Operators { update, .. }) = change else {
        return Ok(Vec::new());
    };
    let renames = path_changes(update).filter(|change| change.operator == Operator::Rename);
    let sources: Vec<_> = renames.map(|rename| rename.path.to_owned()).collect();
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let find = access
        .find_matching(&id_filter(id))
        .with_origin(Stage::REFERENCES.step("read the renamed fields"));
    let found = access.with_full_visibility().find_all(model, find).await?;
    let values = sources.into_iter().map(|source| {
        let value = found.first().and_then(|raw| value_at(raw, &source));
        (source, value)
    });
    Ok(values.collect())
}

/// Returns the value at a path without arrays.
fn value_at(raw: &RawDocument, path: &str) -> Option<RawBson> {
    match path.split_once('.') {
        Some((name, rest)) => value_at(raw.get_document(name).ok()?, rest),
        None => raw.get(path).ok()?.map(RawBson::from),
    }
}

/// Returns the condition that a value is unchanged, or still missing.
pub(super) fn unchanged_value(value: Option<&RawBson>) -> Result<RawDocumentBuf> {
    match value {
        Some(value) => Ok(equal_to(value.clone())),
        None => Ok(field_missing()),
    }
}

/// Returns the ids that a change may add to references, by reference. The result may contain ids that the change does not add.
fn intended_ids(
    model: &Model,
    change: Option<&DocumentChange>,
    renamed: &[(String, Option<RawBson>)],
) -> Result<RawDocumentBuf> {
    let Some(DocumentChange::Operators { update, .. }) = change else {
        return Ok(RawDocumentBuf::new());
    };
    let mut intended = Vec::new();
    for link in model.links() {
        let mut ids = Vec::new();
        for change in path_changes(update) {
            // `$rename` moves the value of another field into the reference.
            if change.operator == Operator::Rename {
                let to = change.rename_target();
                let rest = to.and_then(|to| link.link_field.steps_after(to));
                let mut renamed = renamed.iter().filter(|(source, _)| source == change.path);
                if let (Some(rest), Some((_, Some(moved)))) = (rest, renamed.next()) {
                    ids.extend(ids_below_steps(moved.as_raw_bson_ref(), rest));
                }
                continue;
            }
            let Some(rest) = link.link_field.steps_after(change.path) else {
                continue;
            };
            // An unknown operator counts as a write of the operand: an id without an intent would be missing from the inverse.
            if change.operator.may_store_operand() {
                ids.extend(ids_below_steps(change.added_elements().value(), rest));
            }
        }
        intended.push((link, ids));
    }
    ids_by_link(intended.iter().map(|(link, ids)| (*link, ids.as_slice())))
}

/// Makes a provisional tombstone final.
async fn finalize_tombstone(
    access: ModelAccess<'_>,
    id: &RawBson,
    token: ObjectId,
) -> Result<bool> {
    let filter = provisional_tombstone_filter(id, token)?;
    let change = finalize_change(access)?;
    let finalized = update_metadata(access, "finalize the tombstone", filter, change).await?;
    Ok(finalized == 1)
}

/// Completes a committed or aborted intent: updates inverses, then removes the intent record.
///
/// A rollback of an insert writes a tombstone under the condition of the intent record, and the removal of the record requires
/// that no tombstone exists. So only one of the two succeeds.
async fn complete_intent(
    access: ModelAccess<'_>,
    id: &RawBson,
    token: ObjectId,
) -> Result<Existence> {
    let model = access.model;
    let full_access = access.with_full_visibility();
    let Some(found) = find_unless_rolled_back(access, id, token).await? else {
        return Ok(Existence::Gone);
    };
    // Another process may have completed the intent.
    if found
        .intent
        .as_ref()
        .is_none_or(|intent| intent.token != token)
    {
        return Ok(Existence::Present);
    }
    remove_from_inverses(full_access.to(model), &found).await?;
    let mut filter = intent_filter(id, token)?;
    append_field(&mut filter, tombstone::TOKEN, field_missing())?;
    let step = "remove the intent record";
    if remove_record(full_access.to(model), step, filter).await? == 1 {
        return Ok(Existence::Present);
    }
    // A concurrent recovery has completed the intent, or rolls the insert back.
    let found = find_unless_rolled_back(access, id, token).await?;
    Ok(found.map_or(Existence::Gone, |_| Existence::Present))
}

/// Returns the state of a document that has an intent record, or had one. Returns `None` for a missing document, and for an
/// insert that recovery rolls back: the tombstone has the token of the intent.
async fn find_unless_rolled_back(
    access: ModelAccess<'_>,
    id: &RawBson,
    token: ObjectId,
) -> Result<Option<StoredState>> {
    let full_access = access.with_full_visibility();
    let found = find_by_id(full_access.to(access.model), "read the intent record", id).await?;
    Ok(found.filter(|found| !found.has_tombstone_of(token)))
}

/// Aborts an intent, unless the write is already committed, and completes the intent. The write requires an intent that is not
/// aborted.
async fn abort_intent(access: ModelAccess<'_>, id: &RawBson, token: ObjectId) -> Result<Existence> {
    let full_access = access.with_full_visibility();
    let mut filter = intent_filter(id, token)?;
    append_field(&mut filter, INTENT_COMMITTED, field_missing())?;
    let set = single_field_document(INTENT_ABORTED, true)?;
    set_metadata(
        full_access.to(access.model),
        "abort the intent",
        filter,
        set,
    )
    .await?;
    complete_intent(access, id, token).await
}

/// Waits for a concurrent write, or recovers the document if the lease has expired.
async fn wait_or_recover(access: ModelAccess<'_>, found: &StoredState, attempt: u32) -> Result<()> {
    let id = &found.linked.id;
    if found.is_abandoned()
        && let Some(_claim) = access.shared_state().recoveries.try_claim(access.model, id)
    {
        return recover_document(access, id).await;
    }
    retry::pause_before_retry("another write of the document is pending", attempt).await;
    Ok(())
}

/// Recovers a document: aborts an uncommitted intent, or completes the delete of a document with a tombstone.
///
/// Recovery of a document can require recovery of further documents, in cycles too. Each recovery runs in a task of its own, so a
/// long chain does not overflow the stack.
pub(super) fn recover_document(
    access: ModelAccess<'_>,
    id: &RawBson,
) -> BoxFuture<'static, Result<()>> {
    let (full_access, id) = (access.with_full_visibility(), id.clone());
    Box::pin(async move {
        task::run_to_end(async move { recover_on_task(full_access.to(access.model), &id).await })
            .await
    })
}

/// The documents that tasks of this process recover on behalf of waiting writers. Further waiters leave the recovery to that
/// task: otherwise a cycle of documents would start recoveries without end.
#[derive(Debug, Default)]
pub(crate) struct ActiveRecoveries(Mutex<BTreeSet<(&'static str, OrderedId)>>);

impl ActiveRecoveries {
    /// Claims the recovery of a document. Returns `None` while another task holds the claim.
    fn try_claim(&self, model: &Model, id: &RawBson) -> Option<RecoveryClaim<'_>> {
        let key = (model.collection, OrderedId::from_id(id));
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The claim is created only after a successful insert: a dropped claim would release the claim of the other task.
        claims.insert(key.clone()).then(|| RecoveryClaim {
            recoveries: self,
            key,
        })
    }
}

/// The claim on the recovery of a document. Dropping the claim releases the document.
struct RecoveryClaim<'s> {
    recoveries: &'s ActiveRecoveries,
    key: (&'static str, OrderedId),
}

impl Drop for RecoveryClaim<'_> {
    fn drop(&mut self) {
        let claims = &self.recoveries.0;
        let mut claims = claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.remove(&self.key);
    }
}

async fn recover_on_task(access: ModelAccess<'_>, id: &RawBson) -> Result<()> {
    let Some(found) = find_by_id(access, "read the pending document", id).await? else {
        return Ok(());
    };
    if let Some(tombstone) = &found.tombstone {
        let token = tombstone.token;
        if tombstone.root.is_some() {
            match resolve_tombstone(access, &found).await? {
                TombstoneState::Live => return release_cascaded(access, id, token).await,
                TombstoneState::Provisional => return Ok(()),
                TombstoneState::Final => {
                    finalize_tombstone(access, id, token).await?;
                }
            }
        } else if tombstone.is_provisional {
            match decide_delete(access, id, token).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Restricted => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        return delete_tombstoned(access, id, token).await;
    }
    let Some(intent) = &found.intent else {
        let mut filter = id_filter(id);
        add_idle_condition(&mut filter)?;
        remove_record(access, "remove the expired lease", filter).await?;
        return Ok(());
    };
    if intent.is_of_insert() {
        // The inserting process may have died before all inverse entries were added.
        return match complete_insert(access, id, intent.token).await {
            Err(error) if !is_reference_error(&error) => Err(error),
            _ => Ok(()),
        };
    }
    abort_intent(access, id, intent.token).await?;
    Ok(())
}
