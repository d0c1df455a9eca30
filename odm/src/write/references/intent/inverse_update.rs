//! Changes of inverses with version guards, without transactions.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawBson, oid::ObjectId, rawdoc};

use super::{
    super::{
        MAX_LINK_QUERY_DOCUMENTS,
        delete_rule::DeleteRule,
        inverse_batch::removal_change,
        overflow_inverse::{InverseChange, OverflowInverse},
        renew_lease, update_metadata,
        validate::{inverse_full, inverse_taken, missing_target, too_much_contention},
    },
    MAX_CONFLICT_ATTEMPTS,
    stored_state::{StoredState, find_by_id, find_states, intent_filter},
    unchanged_value, wait_or_recover,
};
use crate::{
    Result,
    language::query::{append_field, field_missing, id_filter, single_field_document},
    metadata::references::{INVERSE_VERSION, tombstone},
    model::ids::{OrderedId, contains_id, id_batches, id_values, ids_filter},
    schema::{InverseLink, ReferenceLink},
    session::{
        access::{Access, ModelAccess},
        retry,
        soft_delete::Visibility,
    },
    write::maintainer::MAINTAINERS,
};

/// The number of inverse additions after which the lease is renewed.
const TARGETS_PER_RENEWAL: usize = 100;

/// Adds a document to the inverses of the new targets in the intent record. Without an inverse, checks that the target is live.
///
/// # Errors
///
/// [`Dangling`](crate::ErrorKind::Dangling), [`TooManyElements`](crate::ErrorKind::TooManyElements) or
/// [`AlreadyLinked`](crate::ErrorKind::AlreadyLinked) for an invalid reference.
pub(super) async fn add_to_inverses(
    access: ModelAccess<'_>,
    found: &StoredState,
    token: ObjectId,
) -> Result<()> {
    let model = access.model;
    // A recovery sees all scopes. The target must be visible in the scope of the referrer.
    let access = access.in_scope_of(model, found.linked.scope.as_ref());
    let access = &access.with_visibility(Visibility::Present);
    let Some(intent) = found.intent.as_ref().filter(|intent| intent.token == token) else {
        return Err(too_much_contention(model, &found.linked.id));
    };
    let referrer = &found.linked.id;
    for rule in DeleteRule::declared_by(model) {
        let old_targets = intent.old_targets(model, rule.link_index);
        let mut targets = found.possible_targets(model, rule.link_index);
        if intent.is_of_insert() {
            targets.append(
                &mut rule
                    .overflow_targets(&access.with_full_visibility(), referrer)
                    .await?,
            );
        }
        let mut new_targets: Vec<_> = targets.difference(&old_targets).cloned().collect();
        if rule.overflow_array().is_some() && rule.inverse.is_none() {
            new_targets =
                unconfirmed_targets(access, &rule, (referrer, token), &new_targets).await?;
        }
        for (position, target) in new_targets.iter().enumerate() {
            if position > 0 && position % TARGETS_PER_RENEWAL == 0 {
                renew_intent(access.to(model), referrer, token).await?;
            }
            match rule.inverse {
                Some(inverse) => update_inverse(access, &rule, inverse, referrer, target).await?,
                None => ensure_live(access, &rule, referrer, target).await?,
            }
        }
    }
    Ok(())
}

/// Returns the targets that are not known to be live. Checks many targets with few queries, and renews the lease meanwhile.
async fn unconfirmed_targets(
    access: &Access,
    rule: &DeleteRule,
    (referrer, token): (&RawBson, ObjectId),
    targets: &[OrderedId],
) -> Result<Vec<OrderedId>> {
    let model = (rule.link.link_field.model)();
    let mut unconfirmed = Vec::new();
    for (position, batch) in id_batches(targets, MAX_LINK_QUERY_DOCUMENTS).enumerate() {
        if position > 0 {
            renew_intent(access.to(rule.model), referrer, token).await?;
        }
        let live = find_targets(access.to(model), batch).await?;
        let live = live.into_iter().filter(|(_, found)| found.is_live());
        let live: BTreeSet<_> = live.map(|(id, _)| id).collect();
        unconfirmed.extend(batch.iter().filter(|id| !live.contains(id)).cloned());
    }
    Ok(unconfirmed)
}

/// Returns the targets that exist, by id, in one query.
pub(super) async fn find_targets(
    access: ModelAccess<'_>,
    targets: &[OrderedId],
) -> Result<BTreeMap<OrderedId, StoredState>> {
    let filter = ids_filter(&id_values(targets)?);
    let found = find_states(access, "read the targets", filter).await?;
    let by_id = found.into_iter();
    let by_id = by_id.map(|found| (OrderedId::from_id(&found.linked.id), found));
    Ok(by_id.collect())
}

/// Renews the lease of an intent record.
///
/// # Errors
///
/// [`Conflict`](crate::ErrorKind::Conflict) if a recovery took over the intent.
async fn renew_intent(access: ModelAccess<'_>, referrer: &RawBson, token: ObjectId) -> Result<()> {
    let full_access = access.with_full_visibility();
    let filter = intent_filter(referrer, token)?;
    match renew_lease(full_access.to(access.model), filter).await? {
        0 => Err(too_much_contention(access.model, referrer)),
        _ => Ok(()),
    }
}

/// Returns an error if the target of a reference does not exist, or counts as deleted. Waits while the target is undecided.
async fn ensure_live(
    access: &Access,
    rule: &DeleteRule,
    referrer: &RawBson,
    target: &OrderedId,
) -> Result<()> {
    let model = (rule.link.link_field.model)();
    let id = target.to_value()?;
    for attempt in 1..=MAX_CONFLICT_ATTEMPTS {
        match find_by_id(access.to(model), "read the target", &id).await? {
            Some(found) if found.is_undecided() && !references_itself(rule, referrer, target) => {
                wait_until_decided(access, rule.link, &found, attempt).await?;
            }
            Some(found) if found.tombstone.is_none() => return Ok(()),
            _ => return Err(missing_target(rule.link, &id)),
        }
    }
    Err(too_much_contention(model, &id))
}

/// Whether a document references itself.
fn references_itself(rule: &DeleteRule, referrer: &RawBson, target: &OrderedId) -> bool {
    rule.is_self_reference() && OrderedId::from_id(referrer) == *target
}

/// Waits until the existence of a target is decided.
///
/// A target with an abandoned insert counts as missing. A recovery here could recurse without end, if two inserted documents
/// reference each other.
async fn wait_until_decided(
    access: &Access,
    link: &ReferenceLink,
    found: &StoredState,
    attempt: u32,
) -> Result<()> {
    if found.has_provisional_tombstone() {
        return wait_or_recover(access.to((link.link_field.model)()), found, attempt).await;
    }
    if found.is_abandoned() {
        return Err(missing_target(link, &found.linked.id));
    }
    retry::pause_before_retry("the target has a pending insert", attempt).await;
    Ok(())
}

/// Removes a document from the inverses of targets that the document no longer references.
pub(super) async fn remove_from_inverses(
    access: ModelAccess<'_>,
    found: &StoredState,
) -> Result<()> {
    let model = access.model;
    // A rejected reference may point into another scope. The inverse there must stay unchanged.
    let access = &access.in_scope_of(model, found.linked.scope.as_ref());
    let referrer = &found.linked.id;
    for rule in DeleteRule::declared_by(model) {
        let (Some(inverse), position) = (rule.inverse, rule.link_index) else {
            continue;
        };
        let mut candidates = found.linked.targets_of(position);
        let mut current = found.possible_targets(model, position);
        if let Some(intent) = &found.intent {
            candidates.append(&mut intent.old_targets(model, position));
            candidates.append(&mut intent.new_targets(model, position));
        }
        if let Some(field) = rule.overflow_array() {
            if found.has_final_tombstone() {
                candidates.append(&mut rule.overflow_targets(access, referrer).await?);
            } else {
                // Pending changes of the overflow array come first.
                for kind in MAINTAINERS {
                    kind.complete_element_change(access.to(model), field, referrer)
                        .await?;
                }
                current.append(&mut rule.referenced_among(access, referrer, &candidates).await?);
            }
        }
        for target in candidates.difference(&current) {
            update_inverse(access, &rule, inverse, referrer, target).await?;
        }
    }
    Ok(())
}

/// Whether a document references a target, or intends to.
async fn still_references(
    access: &Access,
    rule: &DeleteRule,
    referrer: &StoredState,
    target: &OrderedId,
) -> Result<bool> {
    let targets = referrer.possible_targets(rule.model, rule.link_index);
    if targets.contains(target) {
        return Ok(true);
    }
    if referrer.has_final_tombstone() || rule.overflow_array().is_none() {
        return Ok(false);
    }
    let (full_access, target) = (access.with_full_visibility(), [target.clone()].into());
    let referenced = rule.referenced_among(&full_access, &referrer.linked.id, &target);
    Ok(!referenced.await?.is_empty())
}

/// Updates the inverse of a target for a single referrer: the inverse contains the referrer exactly if the reference exists.
async fn update_inverse(
    access: &Access,
    rule: &DeleteRule,
    inverse: &'static InverseLink,
    referrer_id: &RawBson,
    target: &OrderedId,
) -> Result<()> {
    let DeleteRule { model, link, .. } = *rule;
    let target_model = (link.link_field.model)();
    let (path, target_id) = (inverse.link_field.stored, target.to_value()?);
    let full_access = access.with_full_visibility();
    for attempt in 1..=MAX_CONFLICT_ATTEMPTS {
        // Read the inverse version before the reference. Otherwise a change between the reads would go unnoticed.
        let target_state =
            find_by_id(access.to(target_model), "read the target", &target_id).await?;
        let referrer = find_by_id(full_access.to(model), "read the intent record", referrer_id);
        let referrer = referrer.await?;
        let is_referenced = match &referrer {
            Some(referrer) => still_references(access, rule, referrer, target).await?,
            None => false,
        };
        if let Some(target_state) = &target_state
            && is_referenced
            && target_state.is_undecided()
            && !references_itself(rule, referrer_id, target)
        {
            wait_until_decided(access, link, target_state, attempt).await?;
            continue;
        }
        let Some(target_state) =
            target_state.filter(|target_state| target_state.tombstone.is_none() || !is_referenced)
        else {
            return match is_referenced {
                true => Err(missing_target(link, &target_id)),
                false => Ok(()),
            };
        };
        let unchanged_version = unchanged_value(target_state.linked.inverse_version.as_ref())?;
        if let Some(overflow_inverse) = OverflowInverse::on_target(link, inverse) {
            let change = match is_referenced {
                true => InverseChange::Add,
                false => InverseChange::Remove,
            };
            if change == InverseChange::Remove && target_state.has_final_tombstone() {
                // The delete removes the complete inverse.
                return Ok(());
            }
            let mut filter = OverflowInverse::change_filter(&target_id, change)?;
            append_field(&mut filter, INVERSE_VERSION, unchanged_version)?;
            let (referrers, version) = (std::slice::from_ref(referrer_id), ObjectId::new());
            let write = overflow_inverse.apply_change(access, &filter, change, referrers, version);
            if write.await? {
                return Ok(());
            }
            retry::pause_before_retry("the inverse has changed since the read", attempt).await;
            continue;
        }
        let inverse_ids = target_state.linked.referrers_in(target_model, inverse);
        let is_in_inverse = contains_id(inverse_ids, referrer_id);
        let mut filter = id_filter(&target_id);
        append_field(&mut filter, INVERSE_VERSION, unchanged_version)?;
        let mut set = single_field_document(INVERSE_VERSION, ObjectId::new())?;
        let change = match (is_referenced, is_in_inverse, inverse.link_field.is_many) {
            (true, false, true) => {
                if inverse.max.is_some_and(|max| inverse_ids.len() >= max) {
                    return Err(inverse_full(link, inverse, &target_id));
                }
                append_field(&mut filter, tombstone::TOKEN, field_missing())?;
                let push = single_field_document(path, referrer_id.clone())?;
                rawdoc! { "$push": push, "$set": set }
            }
            (true, false, false) => {
                if !inverse_ids.is_empty() {
                    return Err(inverse_taken(link, inverse, &target_id));
                }
                append_field(&mut filter, tombstone::TOKEN, field_missing())?;
                append_field(&mut set, path, referrer_id.clone())?;
                rawdoc! { "$set": set }
            }
            (false, true, _) => removal_change(inverse, [referrer_id])?,
            // The inverse is correct. Change the version anyway: a slower writer must not write an outdated view of the
            // reference.
            (true, true, _) | (false, false, _) => rawdoc! { "$set": set },
        };
        let target = access.to(target_model);
        if update_metadata(target, "write the inverse", filter, change).await? == 1 {
            return Ok(());
        }
        retry::pause_before_retry("the target has changed since the read", attempt).await;
    }
    Err(too_much_contention(target_model, &target_id))
}

/// Updates the inverse of a target for a referrer without unfinished work.
pub(in super::super) async fn sync_inverse(
    full_access: &Access,
    rule: &DeleteRule,
    inverse: &'static InverseLink,
    referrer: &RawBson,
    target: &RawBson,
) -> Result<bool> {
    let referrer_state =
        find_by_id(full_access.to(rule.model), "read the referrer", referrer).await?;
    let referrer_state = referrer_state.as_ref();
    if let Some(referrer_state) = referrer_state.filter(|referrer_state| referrer_state.is_in_use())
    {
        wait_or_recover(full_access.to(rule.model), referrer_state, 1).await?;
    }
    let target = OrderedId::from_id(target);
    update_inverse(full_access, rule, inverse, referrer, &target).await?;
    Ok(true)
}
