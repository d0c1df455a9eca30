//! The first phase of a delete without a transaction: decide whether `restrict` rules allow the delete.
//!
//! The deleted document and all cascaded documents get provisional tombstones with the same token. A cascaded document also
//! stores the root of the delete. While a tombstone is provisional, no write adds a reference to the document, because new
//! referrers wait. So the search for restricting referrers sees all of them.
//!
//! The tombstone of the root decides: when the root becomes final, all documents of the delete set are deleted; when the root's
//! tombstone is removed, all of them stay. A process that finds a provisional tombstone of a cascaded document asks the root.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, oid::ObjectId};

use super::{
    super::{
        MAX_LINK_QUERY_DOCUMENTS,
        delete_rule::{DeleteRule, rules_targeting},
        delete_set::DeleteSet,
        exclude_final_tombstones,
        linked_document::{LinkedDocument, read_linked, read_matching},
        overflow_references::MAX_REFERRERS_PER_FILTER,
        remove_record, renew_lease, set_metadata, update_metadata,
        validate::delete_restricted,
    },
    recover_document,
    stored_state::{
        StoredState, add_idle_condition, find_by_id, find_state, provisional_tombstone_filter,
        tombstone_filter,
    },
    wait_or_recover,
};
use crate::{
    Result,
    backend::operation::Stage,
    language::query::{append_field, equal_to, field_present, single_field_document},
    metadata::references::{
        LEASE, TombstoneState, intended_ids_path,
        tombstone::{self, DeleteRoot, Tombstone},
    },
    model::ids::{OrderedId, id_batches, id_values, ids_filter, none_of, one_of},
    schema::Model,
    session::access::{Access, ModelAccess, add_condition, find_matching},
    write::{maintainer::mark_tombstone, narrow_filter},
};

/// The maximum number of waits for concurrent writes before the delete rolls back. Two deletes that wait for each other must not
/// deadlock.
const MAX_TOMBSTONE_ATTEMPTS: u32 = 7;

/// Whether a delete needs a provisional tombstone. Without cascades, the complete inverses of the document alone may decide.
pub(super) fn needs_provisional_tombstone(full_access: ModelAccess<'_>) -> bool {
    let model = full_access.model;
    let cascade_models = cascade_models(full_access);
    let cascades_to_root_model = cascade_models.values().any(|candidate| {
        let mut cascades =
            rules_targeting(full_access.to(candidate)).filter(DeleteRule::is_cascading);
        cascades.any(|rule| rule.model.collection == model.collection)
    });
    let mut models = cascade_models.values();
    models.any(|candidate| {
        let mut rules =
            rules_targeting(full_access.to(candidate)).filter(DeleteRule::is_restricting);
        // The root is the only deleted document of the model: complete inverses of the root list all restricting referrers.
        let is_root_alone = candidate.collection == model.collection && !cascades_to_root_model;
        rules.any(|rule| {
            !is_root_alone
                || rule.complete_inverse.is_none()
                || cascade_models.contains_key(rule.model.collection)
        })
    })
}

/// Whether a `restrict` rule may forbid the delete of a document or of a cascaded document.
pub(super) fn may_be_restricted(full_access: ModelAccess<'_>) -> bool {
    let cascade_models = cascade_models(full_access);
    let mut rules = cascade_models
        .values()
        .flat_map(|candidate| rules_targeting(full_access.to(candidate)));
    rules.any(|rule| rule.is_restricting())
}

/// Whether a document of a multi-document delete may restrict the delete of another document of the same delete.
pub(super) fn may_restrict_each_other(full_access: ModelAccess<'_>) -> bool {
    let cascade_models = cascade_models(full_access);
    let mut models = cascade_models.values();
    models.any(|candidate| {
        let mut rules =
            rules_targeting(full_access.to(candidate)).filter(DeleteRule::is_restricting);
        rules.any(|rule| cascade_models.contains_key(rule.model.collection))
    })
}

/// Returns the models to which a delete may cascade, including the model itself.
fn cascade_models(full_access: ModelAccess<'_>) -> BTreeMap<&'static str, &'static Model> {
    let model = full_access.model;
    let mut models = BTreeMap::new();
    let mut queue = vec![model];
    while let Some(model) = queue.pop() {
        if models.insert(model.collection, model).is_none() {
            let targeting = rules_targeting(full_access.to(model));
            let cascades = targeting.filter(DeleteRule::is_cascading);
            queue.extend(cascades.map(|rule| rule.model));
        }
    }
    models
}

/// Whether cascaded documents of a model need a tombstone: such documents can restrict a delete, or delete rules target the
/// model.
fn needs_tombstone(full_access: ModelAccess<'_>) -> bool {
    let mut links = full_access.model.links().iter();
    links.any(|link| link.on_delete.is_restricting())
        || rules_targeting(full_access).next().is_some()
}

/// Decides a delete: makes the tombstone of the root final, or removes all tombstones if a remaining referrer restricts the
/// delete.
///
/// Returns `false` if the delete was rolled back because of concurrent writes, or if another process decided.
///
/// # Errors
///
/// [`Restricted`](crate::ErrorKind::Restricted) if a remaining referrer restricts the delete.
pub(super) async fn decide_delete(
    full_access: ModelAccess<'_>,
    id: &RawBson,
    token: ObjectId,
) -> Result<bool> {
    let mut delete_set = DeleteSet::new(false);
    let decision = UndecidedDelete {
        full_access,
        id,
        token,
    };
    match decision.collect_with_tombstones(&mut delete_set).await {
        Ok(true) => {}
        unfinished => {
            decision.roll_back(&delete_set).await?;
            return unfinished;
        }
    }
    let check = decision.ensure_unrestricted(&delete_set).await;
    if let Err(error) = check {
        decision.roll_back(&delete_set).await?;
        return Err(error);
    }
    let (filter, change) = (tombstone_filter(id, token)?, finalize_change(full_access)?);
    let finalized = update_metadata(full_access, "finalize the tombstone", filter, change).await?;
    Ok(finalized == 1)
}

/// Returns the operand of `$set` that writes the provisional tombstone of a cascaded document. The tombstone refers to the root,
/// which decides.
pub(super) fn cascade_tombstone(
    root: ModelAccess<'_>,
    root_id: &RawBson,
    token: ObjectId,
) -> Result<RawDocumentBuf> {
    let lease_end = root.lease().new_end();
    let root = DeleteRoot {
        collection: root.model.collection.to_owned(),
        id: root_id.clone(),
    };
    let mut set = tombstone::set_provisional(token, Some(&root))?;
    append_field(&mut set, LEASE, lease_end)?;
    Ok(set)
}

/// Returns the update that makes a tombstone final.
pub(super) fn finalize_change(full_access: ModelAccess<'_>) -> Result<RawDocumentBuf> {
    let mut change = single_field_document("$unset", tombstone::unset_provisional()?)?;
    let mut set = RawDocumentBuf::new();
    mark_tombstone(full_access, &mut set)?;
    if !set.is_empty() {
        append_field(&mut change, "$set", set)?;
    }
    Ok(change)
}

/// Removes the provisional tombstone of a cascaded document whose delete was rolled back.
pub(super) async fn release_cascaded(
    full_access: ModelAccess<'_>,
    id: &RawBson,
    token: ObjectId,
) -> Result<()> {
    let provisional = provisional_tombstone_filter(id, token)?;
    remove_tombstones(full_access, provisional).await.map(drop)
}

/// An undecided delete, identified by the root and the token of the tombstones.
struct UndecidedDelete<'d> {
    full_access: ModelAccess<'d>,
    id: &'d RawBson,
    token: ObjectId,
}

impl UndecidedDelete<'_> {
    /// Writes provisional tombstones into all cascaded documents, and collects the delete set.
    ///
    /// Returns `false` if a concurrent write holds a document, and may wait for this delete.
    async fn collect_with_tombstones(&self, delete_set: &mut DeleteSet) -> Result<bool> {
        let full_access = self.full_access;
        let tombstoned = tombstone_filter(self.id, self.token)?;
        let root = find_state(full_access, "read the tombstone", &tombstoned).await?;
        let Some(root) = root else {
            return Ok(false);
        };
        let mut queue = vec![(self.full_access.model, vec![root.linked])];
        while let Some((model, documents)) = queue.pop() {
            let added = delete_set.add_documents(model, documents);
            let cascades =
                rules_targeting(full_access.to(model)).filter(|rule| rule.is_cascading());
            let cascades: Vec<_> = cascades
                .filter(|rule| needs_tombstone(full_access.to(rule.model)))
                .collect();
            for batch in id_batches(&added, MAX_LINK_QUERY_DOCUMENTS) {
                for rule in &cascades {
                    // All referrers at once: a document without a tombstone would escape the decision.
                    let Some(filter) = rule.referrer_filter(&full_access, batch, None).await?
                    else {
                        continue;
                    };
                    let awaited = self.awaited_filter(rule, batch).await?;
                    let outcome = self.write_tombstones(rule, &filter, awaited).await;
                    let mut tombstoned = filter;
                    add_condition(&mut tombstoned, tombstone::TOKEN, equal_to(self.token))?;
                    let (referrers, step) =
                        (full_access.to(rule.model), "read the cascaded documents");
                    let referrers = read_matching(referrers, step, &tombstoned).await?;
                    let referrers = self.keep_referrers(rule, referrers, batch).await?;
                    queue.push((rule.model, referrers));
                    if !matches!(outcome, Ok(true)) {
                        // The caller removes the tombstones of the whole delete set. A tombstone that stays would block
                        // every writer until its lease ends, and the next attempt of this delete as well.
                        for (model, documents) in queue {
                            delete_set.add_documents(model, documents);
                        }
                        return outcome;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Returns those documents with a tombstone that still reference a document of `targets`. Releases the rest.
    ///
    /// The write of the tombstones cannot check spilled references.
    async fn keep_referrers(
        &self,
        rule: &DeleteRule,
        documents: Vec<LinkedDocument>,
        targets: &[LinkedDocument],
    ) -> Result<Vec<LinkedDocument>> {
        if rule.overflow_array().is_none() {
            return Ok(documents);
        }
        let targets: BTreeSet<_> = targets
            .iter()
            .map(|document| OrderedId::from_id(&document.id))
            .collect();
        let mut referrers = Vec::new();
        for document in documents {
            match rule
                .overflow_targets(&self.full_access, &document.id)
                .await?
                .is_disjoint(&targets)
            {
                false => referrers.push(document),
                true => {
                    release_cascaded(self.full_access.to(rule.model), &document.id, self.token)
                        .await?
                }
            }
        }
        Ok(referrers)
    }

    /// Returns the condition that a document references any of the given documents by a cascade, or intends to.
    async fn awaited_filter(
        &self,
        rule: &DeleteRule,
        documents: &[LinkedDocument],
    ) -> Result<RawDocumentBuf> {
        let ids: Vec<_> = documents.iter().map(|document| &document.id).collect();
        let mut awaited = referrer_or_intent_filter(&self.full_access, rule, &ids, None).await?;
        if rule.complete_inverse.is_some() {
            let inverse_ids = id_values(&rule.referrers_in_inverses(documents))?;
            add_condition(&mut awaited, "_id", one_of(&inverse_ids))?;
        } else if rule.is_self_reference() {
            add_condition(&mut awaited, "_id", none_of(ids))?;
        }
        Ok(awaited)
    }

    /// Writes tombstones into all documents that match a filter. Waits for concurrent writes to documents that match `awaited`.
    async fn write_tombstones(
        &self,
        rule: &DeleteRule,
        filter: &RawDocumentBuf,
        awaited: RawDocumentBuf,
    ) -> Result<bool> {
        let full_access = self.full_access;
        let referrers = full_access.to(rule.model);
        let mut concurrent = awaited;
        let other_token = single_field_document("$ne", self.token)?;
        add_condition(&mut concurrent, tombstone::TOKEN, other_token)?;
        exclude_final_tombstones(&mut concurrent)?;
        let mut idle = filter.clone();
        add_idle_condition(&mut idle)?;
        for attempt in 1..=MAX_TOMBSTONE_ATTEMPTS {
            let tombstone = cascade_tombstone(full_access, self.id, self.token)?;
            let step = "write the tombstones";
            set_metadata(referrers, step, idle.clone(), tombstone).await?;
            let step = "look for another write";
            let Some(other) = find_state(referrers, step, &concurrent).await? else {
                // Renew the lease, so that waiting processes do not recover this delete.
                renew_lease(full_access, tombstone_filter(self.id, self.token)?).await?;
                return Ok(true);
            };
            wait_or_recover(referrers, &other, attempt).await?;
        }
        Ok(false)
    }

    /// Returns an error if a remaining referrer restricts the delete of a document in the set.
    async fn ensure_unrestricted(&self, delete_set: &DeleteSet) -> Result<()> {
        for part in delete_set.by_model() {
            for rule in
                rules_targeting(self.full_access.to(part.model)).filter(DeleteRule::is_restricting)
            {
                if rule.complete_inverse.is_some() {
                    delete_set.ensure_no_inverse_entry(&rule, &part.documents)?;
                    continue;
                }
                for batch in id_batches(&part.documents, MAX_LINK_QUERY_DOCUMENTS) {
                    self.ensure_no_stored_referrer(&rule, batch).await?;
                }
            }
        }
        Ok(())
    }

    async fn ensure_no_stored_referrer(
        &self,
        rule: &DeleteRule,
        documents: &[LinkedDocument],
    ) -> Result<()> {
        let mut referrer = None;
        for _ in 0..rule.search_passes() {
            if referrer.is_none() {
                let filter = match self.restricting_filter(rule, documents, None).await {
                    // The filter cannot name all referrers with spilled references. A first batch is enough to restrict the
                    // delete.
                    Err(error) if error.is_unsupported() => {
                        self.restricting_filter(rule, documents, MAX_REFERRERS_PER_FILTER)
                            .await?
                    }
                    filter => filter?,
                };
                let referrers = self.full_access.to(rule.model);
                referrer = find_state(referrers, "look for a referrer", &filter).await?;
            }
        }
        let Some(referrer) = referrer else {
            return Ok(());
        };
        let mut targets = referrer.possible_targets(rule.model, rule.link_index);
        let spilled = rule.overflow_targets(&self.full_access, &referrer.linked.id);
        targets.append(&mut spilled.await?);
        let mut candidates = documents.iter();
        let document =
            candidates.find(|document| targets.contains(&OrderedId::from_id(&document.id)));
        let Some(document) = document.or(documents.first()) else {
            return Ok(());
        };
        let documents = std::slice::from_ref(document);
        let filter = self.restricting_filter(rule, documents, MAX_REFERRERS_PER_FILTER);
        let find = find_matching(rule.model.collection, &filter.await?)
            .with_origin(Stage::REFERENCES.step("look for a referrer"))
            .with_limit(MAX_LINK_QUERY_DOCUMENTS as u64);
        let referrers = read_linked(self.full_access.to(rule.model), find).await?;
        let count = referrers.len().max(1) as u64;
        Err(delete_restricted(rule, &document.id, count))
    }

    /// Returns the condition that a document outside of the delete set references any of the given documents, or intends to.
    async fn restricting_filter(
        &self,
        rule: &DeleteRule,
        documents: &[LinkedDocument],
        max_referrers: Option<usize>,
    ) -> Result<RawDocumentBuf> {
        let ids: Vec<_> = documents.iter().map(|document| &document.id).collect();
        let mut filter =
            referrer_or_intent_filter(&self.full_access, rule, &ids, max_referrers).await?;
        let other_token = single_field_document("$ne", self.token)?;
        add_condition(&mut filter, tombstone::TOKEN, other_token)?;
        exclude_final_tombstones(&mut filter)?;
        Ok(filter)
    }

    /// Rolls the delete back: removes all tombstones. The tombstone of the root goes first, because the root decides.
    async fn roll_back(&self, delete_set: &DeleteSet) -> Result<()> {
        let root_filter = provisional_tombstone_filter(self.id, self.token)?;
        if !remove_tombstones(self.full_access, root_filter).await? {
            return Ok(());
        }
        for part in delete_set.by_model() {
            for batch in id_batches(&part.documents, MAX_LINK_QUERY_DOCUMENTS) {
                let ids = batch.iter().map(|document| &document.id);
                let mut filter = ids_filter(ids);
                append_field(&mut filter, tombstone::TOKEN, equal_to(self.token))?;
                append_field(&mut filter, tombstone::PROVISIONAL, field_present())?;
                remove_tombstones(self.full_access.to(part.model), filter).await?;
            }
        }
        Ok(())
    }
}

/// Removes the tombstones of all documents that match a filter. Returns whether a document matched.
async fn remove_tombstones(full_access: ModelAccess<'_>, filter: RawDocumentBuf) -> Result<bool> {
    Ok(remove_record(full_access, "remove the tombstones", filter).await? > 0)
}

/// Returns the condition that a document references any of the given ids, or intends to. `max_referrers` limits the number of named
/// referrers with spilled references.
pub(super) async fn referrer_or_intent_filter(
    full_access: &Access,
    rule: &DeleteRule,
    ids: &[&RawBson],
    max_referrers: Option<usize>,
) -> Result<RawDocumentBuf> {
    let mut current = rule
        .references_filter(full_access, ids, max_referrers)
        .await?;
    narrow_filter(full_access.to(rule.model), &mut current).await?;
    let mut intended = single_field_document(LEASE, field_present())?;
    let intended_ids = intended_ids_path(rule.link.link_field.stored);
    append_field(&mut intended, &intended_ids, one_of(ids.iter().copied()))?;
    let mut either = RawArrayBuf::new();
    either.push(current);
    either.push(intended);
    single_field_document("$or", either)
}

/// Returns the state of a document with a cascaded tombstone. Recovers the root first, if the delete is undecided and abandoned.
pub(super) async fn resolve_tombstone(
    full_access: ModelAccess<'_>,
    found: &StoredState,
) -> Result<TombstoneState> {
    let model = full_access.model;
    let Some(Tombstone {
        token,
        root: Some(DeleteRoot { collection, id }),
        ..
    }) = &found.tombstone
    else {
        return Ok(found.linked.tombstone);
    };
    let mut models = full_access.schema_models().iter();
    let step = "read the root of the cascade";
    if let Some(root_model) = models.find(|model| model.collection == collection)
        && let Some(root) = find_by_id(full_access.to(root_model), step, id).await?
        && root.has_tombstone_of(*token)
    {
        if root.has_provisional_tombstone() {
            if root.is_abandoned() {
                recover_document(full_access.to(root_model), id).await?;
            }
            return Ok(TombstoneState::Provisional);
        }
        // A spilled reference may have been removed after the tombstone was written.
        let mut cascades = DeleteRule::declared_by(model).filter(DeleteRule::is_cascading);
        if cascades.all(|rule| rule.overflow_array().is_none()) {
            return Ok(TombstoneState::Final);
        }
    }
    // The root is gone, or has no tombstone of this delete. If the root was deleted, an intermediate target still has a final
    // tombstone of the same token.
    for rule in DeleteRule::declared_by(model).filter(DeleteRule::is_cascading) {
        let target_model = (rule.link.link_field.model)();
        let mut targets = found.linked.targets_of(rule.link_index);
        let spilled = rule.overflow_targets(&full_access, &found.linked.id);
        targets.append(&mut spilled.await?);
        for target in targets {
            let id = target.to_value()?;
            let target = find_by_id(full_access.to(target_model), "read the target", &id).await?;
            if target.is_some_and(|target| {
                target.has_tombstone_of(*token) && target.has_final_tombstone()
            }) {
                return Ok(TombstoneState::Final);
            }
        }
    }
    Ok(TombstoneState::Live)
}
