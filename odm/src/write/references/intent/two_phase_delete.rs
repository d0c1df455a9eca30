//! Deletes in two phases, without a transaction.

use bson::{RawBson, RawDocument, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        MAX_LINK_QUERY_DOCUMENTS, clear_deleted,
        delete_rule::{DeleteRule, DetachIntent, rules_targeting},
        delete_set::DeleteSet,
        exclude_final_tombstones,
        linked_document::read_linked,
        overflow_references::{MAX_REFERRERS_PER_FILTER, add_conditions},
        remove_record, renew_lease, set_metadata,
        validate::too_much_contention,
    },
    MAX_CONFLICT_ATTEMPTS, filter_for_document, finalize_tombstone,
    inverse_update::remove_from_inverses,
    prepare_delete::{
        self, cascade_tombstone, decide_delete, referrer_or_intent_filter, release_cascaded,
    },
    stored_state::{StoredState, add_idle_condition, find_by_id, find_state, tombstone_filter},
    wait_or_recover,
};
use crate::{
    Result,
    backend::{
        BoxFuture,
        operation::{DeleteOperation, Stage},
    },
    language::query::{append_field, equal_to, id_filter, single_field_document},
    metadata::references::{INTENT_OLD, INTENT_TOKEN, LEASE, tombstone},
    model::ids::{OrderedId, id_array, ids_filter, none_of},
    pending::blocked::{RejectionList, is_blocking, is_rejection},
    schema::{InverseLink, Model},
    session::{
        access::{Access, ModelAccess, add_condition, find_matching},
        retry, task,
    },
    write::{
        WriteOperation, WriteOutcome,
        maintainer::{DeleteFollowUp, MAINTAINERS, mark_tombstone},
        narrow_filter,
        version_clock::first_version,
    },
};

/// Deletes a single document: writes a tombstone, applies the delete rules to referrers, updates inverses, then deletes the
/// document.
///
/// Returns `None` if the document is missing or does not match the filter of the write.
pub(super) async fn delete_document(
    access: ModelAccess<'_>,
    write: &WriteOperation,
    id: &RawBson,
) -> Result<Option<WriteOutcome>> {
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
        let full_access = access.with_full_visibility();
        add_idle_condition(&mut filter)?;
        let is_provisional = prepare_delete::needs_provisional_tombstone(full_access.to(model));
        if !is_provisional {
            // Complete inverses in the document list all restricting referrers.
            let mut delete_set = DeleteSet::new(false);
            let documents = delete_set.add_documents(model, vec![found.linked.clone()]);
            for rule in rules_targeting(full_access.to(model)).filter(DeleteRule::is_restricting) {
                delete_set.ensure_no_inverse_entry(&rule, &documents)?;
                if let Some(inverse) = rule.complete_inverse {
                    let inverse_ids = found.linked.referrers_in(model, inverse);
                    let no_others = no_other_entries_filter(inverse, inverse_ids)?;
                    add_condition(&mut filter, inverse.link_field.stored, no_others)?;
                }
            }
        }
        let token = ObjectId::new();
        let mut set = match is_provisional {
            true => tombstone::set_provisional(token, None)?,
            false => tombstone::set_final(token)?,
        };
        append_field(&mut set, LEASE, access.lease().new_end())?;
        if !is_provisional {
            mark_tombstone(full_access.to(model), &mut set)?;
        }
        if set_metadata(access, "write the tombstone", filter, set).await? == 0 {
            retry::pause_before_retry("the document has changed since the read", attempt).await;
            continue;
        }
        if is_provisional && !decide_delete(full_access.to(model), id, token).await? {
            // A longer pause lets the writers that wait for this delete proceed.
            retry::pause_before_retry("another write blocks the delete", attempt.saturating_add(5))
                .await;
            continue;
        }
        apply_delete_rules(full_access.to(model), id, token).await?;
        if let Some(write_filter) = write.filter_mut() {
            *write_filter = tombstone_filter(id, token)?;
        }
        return write.send(access).await.map(Some);
    }
    Err(too_much_contention(model, id))
}

/// Returns the condition that an inverse contains no further ids.
fn no_other_entries_filter(inverse: &InverseLink, entries: &[RawBson]) -> Result<RawDocumentBuf> {
    if inverse.link_field.is_many {
        let others = single_field_document("$elemMatch", none_of(entries))?;
        return single_field_document("$not", others);
    }
    single_field_document("$in", id_array(entries.iter().chain([&RawBson::Null])))
}

/// Prepares the delete of a document with a final tombstone: deletes or detaches all referrers, and removes the document from
/// copies, rollups and inverses.
///
/// # Errors
///
/// The error of the first rejecting document, after the change of all other documents. The document with the tombstone stays
/// pending.
pub(super) async fn apply_delete_rules(
    full_access: ModelAccess<'_>,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let model = full_access.model;
    let deletion = DecidedDelete {
        full_access,
        id,
        token,
    };
    let mut attempt = 1;
    while attempt <= MAX_CONFLICT_ATTEMPTS {
        // The version of a deleted source: newer than the document, and older than a later document with the same `_id`.
        let version = first_version();
        // Without the tombstone, the delete was finished or rolled back elsewhere. Leave the referrers unchanged.
        let Some(found) = deletion.find_document().await? else {
            return Ok(());
        };
        let (mut outcome, mut is_progress) = (DetachOutcome::AlreadyDetached, false);
        let mut rejected = None;
        for rule in rules_targeting(full_access).filter(DeleteRule::affects_referrers) {
            let inverse_ids = rule
                .complete_inverse
                .map(|inverse| found.linked.referrers_in(model, inverse));
            match deletion.detach_batch(&rule, inverse_ids).await {
                Err(error) if is_rejection(&error) => {
                    rejected.get_or_insert(error);
                    continue;
                }
                detached => is_progress |= detached?,
            }
            let referrers = match inverse_ids {
                Some(inverse_ids) => inverse_ids.to_vec(),
                None => find_some_referrers(&full_access, &rule, id).await?,
            };
            for referrer in &referrers {
                match deletion.detach_referrer(&rule, referrer, attempt).await {
                    Err(error) if is_blocking(&error) => drop(rejected.get_or_insert(error)),
                    result => outcome = outcome.max(result?),
                }
            }
        }
        // Another attempt now would fail again.
        if let Some(error) = rejected {
            return Err(error);
        }
        match outcome {
            DetachOutcome::AlreadyDetached => {
                let deleted = std::slice::from_ref(&found.linked);
                clear_deleted(full_access, deleted, version).await?;
                for kind in MAINTAINERS {
                    kind.finish_tombstone(full_access, id).await?;
                }
                // The references are known only as long as the document and its parts exist.
                remove_from_inverses(full_access, &found).await?;
                // The filter names the tombstone: a new document may have the same `_id` by then.
                let tombstoned = tombstone_filter(id, token)?;
                for kind in MAINTAINERS {
                    kind.delete_parts(full_access, &tombstoned).await?;
                }
                return Ok(());
            }
            DetachOutcome::Retry if !is_progress => attempt += 1,
            // Progress was made, so the number of referrers does not use up the attempts.
            DetachOutcome::Retry | DetachOutcome::Deleted => attempt = 1,
        }
        // Renew the lease, so that waiting processes do not recover this delete.
        renew_lease(full_access, tombstone_filter(id, token)?).await?;
    }
    Err(too_much_contention(model, id))
}

/// A decided delete of a document, identified by the token of the final tombstone.
///
/// The process may be late: the delete was finished elsewhere, and a new document with the same `_id` has referrers of its own.
/// So each change of a referrer has three steps: store an intent record in the referrer, check the tombstone again, change the
/// referrer. While the tombstone exists, a reference to the `_id` is a reference to the deleted document. The intent record keeps
/// the referrer unchanged until the change is done or a recovery aborts the intent.
struct DecidedDelete<'d> {
    full_access: ModelAccess<'d>,
    id: &'d RawBson,
    token: ObjectId,
}

/// The result of an attempt to detach a referrer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DetachOutcome {
    /// The document does not reference the deleted document.
    AlreadyDetached,
    /// The referrer still references the deleted document: another pass is necessary.
    Retry,
    /// The referrer was deleted.
    Deleted,
}

impl DecidedDelete<'_> {
    /// Returns the document, if the document has the tombstone of this delete.
    async fn find_document(&self) -> Result<Option<StoredState>> {
        let tombstoned = tombstone_filter(self.id, self.token)?;
        find_state(self.full_access, "read the tombstone", &tombstoned).await
    }

    /// Returns the condition that a document references the deleted document and has no unfinished work.
    async fn idle_referrer_filter(
        &self,
        rule: &DeleteRule,
        mut filter: RawDocumentBuf,
    ) -> Result<RawDocumentBuf> {
        let ids = &[self.id];
        let references = rule.references_filter(&self.full_access, ids, MAX_REFERRERS_PER_FILTER);
        add_conditions(&mut filter, references.await?)?;
        add_idle_condition(&mut filter)?;
        narrow_filter(self.full_access.to(rule.model), &mut filter).await?;
        Ok(filter)
    }

    /// Detaches or deletes idle referrers in a single batch: all, or only the given ids. Skips a cascade if the delete of a
    /// referrer has follow-up work. Returns whether the batch contained referrers.
    async fn detach_batch(&self, rule: &DeleteRule, referrers: Option<&[RawBson]>) -> Result<bool> {
        let full_access = self.full_access;
        if rule.is_cascading() && has_follow_up(full_access.to(rule.model)) {
            return Ok(false);
        }
        let candidates = match referrers {
            Some([]) => return Ok(false),
            Some(ids) => ids_filter(ids),
            None => RawDocumentBuf::new(),
        };
        let (token, lease_end) = (ObjectId::new(), full_access.lease().new_end());
        let mut intent = single_field_document(INTENT_TOKEN, token)?;
        append_field(&mut intent, INTENT_OLD, RawDocumentBuf::new())?;
        append_field(&mut intent, LEASE, lease_end)?;
        let filter = self.idle_referrer_filter(rule, candidates).await?;
        let referrers = full_access.to(rule.model);
        let count = set_metadata(referrers, "claim the referrers", filter, intent).await?;
        if count == 0 {
            return Ok(false);
        }
        let mut claimed = single_field_document(LEASE, equal_to(lease_end))?;
        append_field(&mut claimed, INTENT_TOKEN, equal_to(token))?;
        let outcome = match self.find_document().await? {
            Some(_) => match self.detach_claimed(rule, claimed.clone()).await {
                Err(error) if is_rejection(&error) => {
                    Box::pin(self.detach_each(rule, &claimed)).await
                }
                outcome => outcome,
            },
            None => Ok(0),
        };
        // A transaction elsewhere ignores the intent record, and may have changed the reference meanwhile. Release such
        // referrers.
        if !outcome.as_ref().is_ok_and(|detached| *detached == count) {
            remove_record(referrers, "release the referrers", claimed).await?;
        }
        outcome.map(|_| true)
    }

    /// Detaches or deletes the claimed referrers that still reference the deleted document. Returns the number of changed
    /// documents.
    async fn detach_claimed(&self, rule: &DeleteRule, mut claimed: RawDocumentBuf) -> Result<u64> {
        let full_access = self.full_access;
        // A spilled reference that is already gone needs no change, so the filter does not ask for the reference.
        if rule.overflow_array().is_none() {
            let condition = equal_to(self.id.clone());
            add_condition(&mut claimed, rule.link.link_field.stored, condition)?;
        }
        if !rule.is_cascading() {
            return rule
                .detach_matching(&full_access, claimed, [self.id], DetachIntent::Recorded)
                .await;
        }
        let delete = DeleteOperation {
            collection: rule.model.collection.into(),
            filter: claimed,
            multi: true,
            origin: Stage::REFERENCES.step("delete the claimed referrers"),
        };
        Ok(full_access.to(rule.model).delete(delete).await?.deleted)
    }

    /// Detaches each claimed referrer separately, after a document rejected the change of the batch.
    ///
    /// # Errors
    ///
    /// The error of the rejecting documents, after the attempt on all.
    async fn detach_each(&self, rule: &DeleteRule, claimed: &RawDocument) -> Result<u64> {
        let referrers = self.full_access.to(rule.model);
        let find = referrers
            .find_matching(claimed)
            .with_origin(Stage::REFERENCES.step("read the claimed referrers"));
        let (mut detached, mut rejected) = (0, RejectionList::default());
        for id in referrers.find_ids(find).await? {
            let mut single = claimed.to_owned();
            add_condition(&mut single, "_id", equal_to(id.clone()))?;
            match self.detach_claimed(rule, single).await {
                Err(error) if is_rejection(&error) => {
                    rejected.add_rejection(None, rule.model, id, error)?;
                }
                outcome => detached += outcome?,
            }
        }
        rejected.into_error().map_or(Ok(detached), Err)
    }

    /// Detaches or deletes a single referrer. Returns [`DetachOutcome::AlreadyDetached`] if the document neither references the
    /// deleted document nor intends to.
    async fn detach_referrer(
        &self,
        rule: &DeleteRule,
        referrer: &RawBson,
        attempt: u32,
    ) -> Result<DetachOutcome> {
        let (full_access, model, token) = (self.full_access, rule.model, self.token);
        let Some(found) = find_by_id(full_access.to(model), "read the referrer", referrer).await?
        else {
            return Ok(DetachOutcome::AlreadyDetached);
        };
        let mut targets = found.possible_targets(model, rule.link_index);
        if !found.has_final_tombstone() {
            targets.append(&mut rule.overflow_targets(&full_access, referrer).await?);
        }
        if !targets.contains(&OrderedId::from_id(self.id)) {
            return Ok(DetachOutcome::AlreadyDetached);
        }
        if found.has_provisional_tombstone() && found.has_tombstone_of(token) {
            return self.delete_cascaded(model, referrer, false, attempt).await;
        }
        if found.is_in_use() {
            wait_or_recover(full_access.to(model), &found, attempt).await?;
            return Ok(DetachOutcome::Retry);
        }
        if rule.is_cascading() {
            let idle = self.idle_referrer_filter(rule, id_filter(referrer)).await?;
            let tombstone = cascade_tombstone(self.full_access, self.id, token)?;
            let step = "write the tombstones";
            if set_metadata(full_access.to(model), step, idle, tombstone).await? == 1 {
                // The filter cannot check spilled references.
                if rule.overflow_array().is_some()
                    && !rule
                        .overflow_targets(&full_access, referrer)
                        .await?
                        .contains(&OrderedId::from_id(self.id))
                {
                    release_cascaded(full_access.to(model), referrer, token).await?;
                    return Ok(DetachOutcome::Retry);
                }
                let needs_decision = prepare_delete::may_be_restricted(full_access.to(model));
                return self
                    .delete_cascaded(model, referrer, needs_decision, attempt)
                    .await;
            }
        }
        // The next batch detaches the referrer.
        Ok(DetachOutcome::Retry)
    }

    /// Deletes a referrer with a tombstone of this delete, if this delete still exists.
    ///
    /// A referrer that was added after the decision may be restricted by a remaining document. Then `needs_decision` requests a
    /// decision.
    async fn delete_cascaded(
        &self,
        model: &'static Model,
        id: &RawBson,
        needs_decision: bool,
        attempt: u32,
    ) -> Result<DetachOutcome> {
        let (full_access, token) = (self.full_access, self.token);
        if self.find_document().await?.is_none() {
            release_cascaded(full_access.to(model), id, token).await?;
            return Ok(DetachOutcome::Retry);
        }
        let is_final = match needs_decision {
            true => decide_delete(full_access.to(model), id, token).await?,
            false => finalize_tombstone(full_access.to(model), id, token).await?,
        };
        if !is_final {
            // A longer pause lets the writers that wait for this delete proceed.
            let reason = "another write blocks the cascaded delete";
            retry::pause_before_retry(reason, attempt.saturating_add(5)).await;
            return Ok(DetachOutcome::Retry);
        }
        // A task of its own: a deep cascade must not overflow the stack.
        let (access, id) = (Access::clone(&full_access), id.clone());
        task::run_to_end(run_cascaded_delete(access, model, id, token)).await?;
        Ok(DetachOutcome::Deleted)
    }
}

/// Whether the delete of documents of a model has follow-up work.
fn has_follow_up(full_access: ModelAccess<'_>) -> bool {
    let mut links = full_access.model.links().iter();
    links.any(|link| link.find_inverse().is_some())
        || rules_targeting(full_access).next().is_some()
        || DeleteFollowUp::of_model(full_access.schema_models(), full_access.model)
            != DeleteFollowUp::None
}

/// Deletes a cascaded document with a final tombstone, as [`delete_tombstoned`].
fn run_cascaded_delete(
    full_access: Access,
    model: &'static Model,
    id: RawBson,
    token: ObjectId,
) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move { delete_tombstoned(full_access.to(model), &id, token).await })
}

/// Applies the delete rules of a document with a final tombstone, and deletes the document.
pub(super) async fn delete_tombstoned(
    full_access: ModelAccess<'_>,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    apply_delete_rules(full_access, id, token).await?;
    let delete = DeleteOperation {
        collection: full_access.model.collection.into(),
        filter: tombstone_filter(id, token)?,
        multi: false,
        origin: Stage::REFERENCES.step("delete the document with the tombstone"),
    };
    full_access.delete(delete).await.map(drop)
}

/// Returns some referrers of a document, including documents that intend to reference the document. Used where no complete
/// inverse exists.
async fn find_some_referrers(
    full_access: &Access,
    rule: &DeleteRule,
    id: &RawBson,
) -> Result<Vec<RawBson>> {
    // If the referrers in the first batch were only remnants, a complete search finds the rest.
    for max_referrers in [MAX_REFERRERS_PER_FILTER, None]
        .into_iter()
        .take(rule.search_passes())
    {
        let mut filter = referrer_or_intent_filter(full_access, rule, &[id], max_referrers).await?;
        exclude_final_tombstones(&mut filter)?;
        let find = find_matching(rule.model.collection, &filter)
            .with_origin(Stage::REFERENCES.step("read the referrers"))
            .with_limit(MAX_LINK_QUERY_DOCUMENTS as u64);
        let referrers = read_linked(full_access.to(rule.model), find).await?;
        if !referrers.is_empty() {
            return Ok(referrers.into_iter().map(|document| document.id).collect());
        }
    }
    Ok(Vec::new())
}
