//! Rollups on a standalone server: a write records pending work in the child, then each parent is updated by a separate write.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    MAX_CHILDREN_PER_BATCH, MAX_UPDATE_ATTEMPTS,
    child::{ChildState, ContributionDelta, ParentDeltas, deltas_by_parent, record_contributions},
    contribution::RollupGroup,
    parent::{ParentIdentity, ParentKey},
    parent_update, rollup_groups, rollup_update,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Stage,
    error,
    language::query::id_filter,
    metadata::{
        ParsedMetadata,
        rollup::{
            APPLIED_CONTRIBUTIONS, AppliedContribution, ROLLUP_VERSION, RecordedContribution,
        },
    },
    model::ids::{OrderedId, id_batches, ids_filter},
    pending::{
        blocked::{self, Rejection, is_rejection},
        record::PendingKind,
    },
    schema::Model,
    session::{
        access::{Access, ModelAccess},
        retry,
    },
    write::metadata_update::{
        MetadataUpdate, apply_update, apply_updates, to_raw_document, to_raw_value,
    },
};

/// Applies the contributions of the children that a filter matches, in batches.
pub(super) async fn apply_contributions(
    access: ModelAccess<'_>,
    filter: RawDocumentBuf,
) -> Result<()> {
    let groups = rollup_groups(access.schema_models(), access.model);
    let children = ChildState::read_matching(access, &groups, &filter).await?;
    let mut blocked = None;
    for batch in id_batches(&children, MAX_CHILDREN_PER_BATCH) {
        match apply_batch(access, &groups, batch.to_vec()).await {
            // The work of this batch stays pending.
            Err(error) if matches!(error.kind(), ErrorKind::StillPending | ErrorKind::Conflict) => {
                blocked.get_or_insert(error);
            }
            result => result?,
        }
    }
    blocked.map_or(Ok(()), Err)
}

async fn apply_batch(
    access: ModelAccess<'_>,
    groups: &[RollupGroup],
    mut children: Vec<ChildState>,
) -> Result<()> {
    let model = access.model;
    let ids: Vec<_> = children.iter().map(|child| child.id.clone()).collect();
    let filter = doc! { "_id": { "$in": ids } };
    // Announce a new parent in the child before the parent is updated. Otherwise nobody would find the parent again after a
    // crash.
    let mut attempt = 0;
    while announce_parents(access, groups, &children).await? > 0 {
        attempt += 1;
        if attempt > MAX_UPDATE_ATTEMPTS {
            let message = "too much contention on the references of the children: the rollup update stays pending, and `db.run_pending()` completes it";
            let error = Error::new(ErrorKind::Conflict, message);
            return Err(error::naming_model(model)(error));
        }
        children = ChildState::read_matching(access, groups, &to_raw_document(&filter)?).await?;
    }
    let mut found_parents = BTreeMap::new();
    let (mut applied, mut changed) = (Vec::new(), BTreeSet::new());
    let mut rejections = RejectedChildren::default();
    for (position, group) in groups.iter().enumerate() {
        for (key, parent_deltas) in deltas_by_parent(&children, position)? {
            let ParentDeltas { parent, deltas } = parent_deltas;
            let ids: Vec<_> = deltas.iter().map(|delta| delta.child_id.clone()).collect();
            let outcome = match apply_at_parent(access, groups, position, &parent, &ids).await {
                // Apply the contributions of these children to the remaining parents, and continue with the remaining children.
                Err(error) if is_rejection(&error) => {
                    let rejection = Rejection::new(group.parent_model, parent.id.clone(), &error);
                    for id in &ids {
                        let id = to_raw_value(id)?;
                        changed.insert(OrderedId::from_id(&id));
                        rejections.add_rejection(id, &rejection);
                    }
                    continue;
                }
                outcome => outcome?,
            };
            found_parents.insert((position, key), outcome.is_some());
            let Some((write_id, children_at_update)) = outcome else {
                continue;
            };
            for id in &ids {
                let key = OrderedId::from_bson(id)?;
                if !is_unchanged(&children, &children_at_update, &key)? {
                    changed.insert(key);
                }
            }
            applied.push((group.parent_model, parent.id, write_id));
        }
    }
    let mut unchanged = Vec::new();
    for child in &children {
        if !changed.contains(&child.id_key()?) {
            unchanged.push(child);
        }
    }
    let parent_exists = |group, parent: &ParentKey| {
        let exists = found_parents.get(&(group, parent.clone()));
        exists.copied().unwrap_or(true)
    };
    let all_recorded =
        record_contributions(access, groups, &unchanged, parent_exists, false, None).await?;
    // The entries of changed children stay in the parent until the children record the contributions.
    if all_recorded && changed.is_empty() {
        remove_applied(&access, applied).await?;
    }
    rejections.record_rejections(access).await
}

/// Children with a parent that rejects the rollup update.
#[derive(Default)]
pub(super) struct RejectedChildren(BTreeMap<OrderedId, (RawBson, Vec<Rejection>)>);

impl RejectedChildren {
    pub(super) fn add_rejection(&mut self, child_id: RawBson, rejection: &Rejection) {
        let entry = self.0.entry(OrderedId::from_id(&child_id));
        let (_, rejections) = entry.or_insert((child_id, Vec::new()));
        rejections.push(rejection.clone());
    }

    /// Records the rejections in the children.
    ///
    /// # Errors
    ///
    /// [`StillPending`](ErrorKind::StillPending) if there are rejections.
    pub(super) async fn record_rejections(self, access: ModelAccess<'_>) -> Result<()> {
        // Children with the same rejections share one write.
        let mut by_rejections: Vec<(&[Rejection], Vec<RawBson>)> = Vec::new();
        for (id, rejections) in self.0.values() {
            match by_rejections
                .iter_mut()
                .find(|(known, _)| known == rejections)
            {
                Some((_, ids)) => ids.push(id.clone()),
                None => by_rejections.push((rejections, vec![id.clone()])),
            }
        }
        for (rejections, ids) in &by_rejections {
            let filter = ids_filter(ids);
            let kind = PendingKind::ROLLUP;
            blocked::record_rejections(access, kind, filter, rejections).await?;
        }
        let all_rejections = by_rejections
            .iter()
            .flat_map(|(rejections, _)| rejections.iter());
        match by_rejections.is_empty() {
            true => Ok(()),
            false => Err(blocked::blocked_error(access.model, all_rejections)),
        }
    }
}

/// Removes applied contributions from parents, after the children have recorded the contributions. The write that applied the
/// contributions identifies the entries.
pub(super) async fn remove_applied(
    access: &Access,
    applied: Vec<(&'static Model, Bson, ObjectId)>,
) -> Result<()> {
    for (parent_model, id, write_id) in applied {
        let filter = id_filter(&to_raw_value(&id)?);
        let origin = Stage::ROLLUPS.step("remove the applied contributions");
        let removal = AppliedContribution::pull_write_entries(write_id);
        let removal = MetadataUpdate::new(origin, filter, removal);
        apply_update(access.to(parent_model), removal).await?;
    }
    Ok(())
}

/// Whether a child had the same contributions when the parent was updated.
fn is_unchanged(
    children: &[ChildState],
    children_at_update: &[ChildState],
    key: &OrderedId,
) -> Result<bool> {
    let mut states = [None, None];
    for (children, state) in [children, children_at_update].into_iter().zip(&mut states) {
        for child in children {
            if child.id_key()? == *key {
                *state = Some((child.token, child.contributions.clone()));
            }
        }
    }
    let [before, at_update] = states;
    Ok(before.is_some() && before == at_update)
}

/// Records new parents in the children before the parents are updated, with an empty contribution. Returns the number of children
/// that needed the record.
async fn announce_parents(
    access: ModelAccess<'_>,
    groups: &[RollupGroup],
    children: &[ChildState],
) -> Result<usize> {
    let mut changes = Vec::new();
    for child in children {
        let mut set = Document::new();
        for (position, group) in groups.iter().enumerate() {
            let Some(recorded) = child.recorded.get(position) else {
                continue;
            };
            let record = recorded.iter().map(RecordedContribution::to_document);
            let mut record: Vec<_> = record.collect();
            for contribution in child.contributions.get(position).into_iter().flatten() {
                let parent = OrderedId::from_bson(&contribution.parent_id)?;
                if child.recorded_at(position, &parent)?.is_none() {
                    record.push(contribution.to_record(false));
                }
            }
            if record.len() > recorded.len() {
                set.insert(group.record_path(), record);
            }
        }
        if set.is_empty() {
            continue;
        }
        let mut filter = doc! { "_id": { "$eq": child.id.clone() } };
        filter.extend(child.unchanged_since_read());
        let update = doc! { "$set": set };
        changes.push(rollup_update("record the contributions", &filter, update)?);
    }
    let count = changes.len();
    apply_updates(access, changes).await?;
    Ok(count)
}

/// Adds the contributions of new children to the applied contributions, in an update of the parent. Returns whether a child
/// contributes values.
pub(super) fn push_applied(
    write_id: ObjectId,
    group_key: &str,
    deltas: &[ContributionDelta<'_>],
    update: &mut Document,
) -> bool {
    let contributions = deltas
        .iter()
        .filter_map(|delta| Some((delta.child_id, delta.new?)));
    let with_values = contributions.filter(|(_, contribution)| !contribution.values.is_empty());
    let applied = with_values.map(|(child_id, contribution)| {
        let applied = AppliedContribution {
            write_id,
            group_key: group_key.to_owned(),
            child_id: child_id.clone(),
            values: contribution.values.clone(),
        };
        applied.to_document()
    });
    let applied: Vec<_> = applied.collect();
    let has_values = !applied.is_empty();
    if has_values {
        change_applied(update, "$push", doc! { "$each": applied });
    }
    has_values
}

/// Returns the condition that the parent has no applied contribution of these children, or of earlier documents with the same ids.
pub(super) fn none_applied(group_key: &str, deltas: &[ContributionDelta<'_>]) -> Document {
    let child_ids = deltas.iter().map(|delta| delta.child_id.clone());
    AppliedContribution::none_of(group_key, child_ids.collect())
}

/// Returns the values of the applied contributions of a group, by child.
pub(super) fn values_by_child(
    applied: &[AppliedContribution],
    group_key: &str,
) -> Result<BTreeMap<OrderedId, Document>> {
    let in_group = applied
        .iter()
        .filter(|applied| applied.group_key == group_key);
    let values = in_group.map(|applied| {
        let child = OrderedId::from_bson(&applied.child_id)?;
        Ok((child, applied.values.clone()))
    });
    values.collect()
}

/// Adds an operator on the applied contributions to an update.
fn change_applied(update: &mut Document, operator: &str, operand: impl Into<Bson>) {
    match update.get_document_mut(operator) {
        Ok(paths) => drop(paths.insert(APPLIED_CONTRIBUTIONS, operand)),
        Err(_) => drop(update.insert(operator, doc! { APPLIED_CONTRIBUTIONS: operand })),
    }
}

/// Returns the condition that the rollup version of a parent is unchanged.
pub(super) fn version_guard(parent: &Document) -> Document {
    version_guard_for(ParsedMetadata::of(parent).rollup_version())
}

/// Returns the condition that a parent has a rollup version.
pub(super) fn version_guard_for(rollup_version: Option<&Bson>) -> Document {
    match rollup_version {
        Some(rollup_version) => doc! { ROLLUP_VERSION: { "$eq": rollup_version.clone() } },
        None => doc! { ROLLUP_VERSION: { "$exists": false } },
    }
}

/// Applies the contributions of some children to one parent. Returns the id of the write and the children as they were read, or
/// `None` if the parent does not exist.
///
/// # Errors
///
/// [`Conflict`](ErrorKind::Conflict) if concurrent writes win every attempt.
async fn apply_at_parent(
    access: ModelAccess<'_>,
    groups: &[RollupGroup],
    position: usize,
    parent: &ParentIdentity,
    ids: &[Bson],
) -> Result<Option<(ObjectId, Vec<ChildState>)>> {
    let Some(group) = groups.get(position) else {
        return Ok(None);
    };
    let group_key = group.group_key();
    let parent_key = OrderedId::from_bson(&parent.id)?;
    let mut requested = BTreeSet::new();
    for id in ids {
        requested.insert(OrderedId::from_bson(id)?);
    }
    for attempt in 1..=MAX_UPDATE_ATTEMPTS {
        // Read the rollup version before the children. If the version is unchanged at the write, the children were read after
        // every earlier change.
        let Some(current) = parent_update::read_parent(&access, group, parent).await? else {
            return Ok(None);
        };
        let all_applied = ParsedMetadata::of(&current).applied_contributions();
        let values_by_child = values_by_child(&all_applied, &group_key)?;
        let (in_group, in_other_groups): (Vec<_>, Vec<_>) = all_applied
            .iter()
            .partition(|applied| applied.group_key == group_key);
        let child_ids = in_group.iter().map(|applied| &applied.child_id);
        let child_ids: Vec<_> = child_ids.chain(ids).cloned().collect();
        let filter = doc! { "_id": { "$in": child_ids } };
        let children =
            ChildState::read_matching(access, groups, &to_raw_document(&filter)?).await?;
        let write_id = ObjectId::new();
        let mut deltas = Vec::new();
        let in_other_groups = in_other_groups.into_iter();
        let mut kept: Vec<_> = in_other_groups
            .map(AppliedContribution::to_document)
            .collect();
        for child in &children {
            let id = child.id_key()?;
            let recorded = child.recorded_at(position, &parent_key)?;
            let recorded_values =
                recorded.map_or_else(Document::new, |recorded| recorded.values.clone());
            if !requested.contains(&id) {
                // Remove the entry if the child has recorded the contribution by now.
                let unrecorded = in_group.iter().filter(|applied| {
                    applied.child_id == child.id && applied.values != recorded_values
                });
                kept.extend(unrecorded.map(|applied| applied.to_document()));
                continue;
            }
            // A child that changed after the announcement has not recorded this parent yet. Do not count the child: a recompute
            // sums the records and would miss the contribution.
            let contribution = match recorded {
                Some(_) => child.contribution_to(position, &parent_key)?,
                None => None,
            };
            let values = contribution
                .map(|contribution| contribution.values.clone())
                .unwrap_or_default();
            let old_values = values_by_child.get(&id).unwrap_or(&recorded_values);
            deltas.push(ContributionDelta {
                child_id: &child.id,
                old_values: old_values.clone(),
                new: contribution,
                is_new: false,
            });
            if values != recorded_values {
                let applied = AppliedContribution {
                    write_id,
                    group_key: group_key.clone(),
                    child_id: child.id.clone(),
                    values,
                };
                kept.push(applied.to_document());
            }
        }
        let mut update =
            parent_update::build_update(access, group, parent, Some(&current), &deltas).await?;
        match (kept.is_empty(), all_applied.is_empty()) {
            (true, true) => {}
            (true, false) => change_applied(&mut update, "$unset", ""),
            (false, _) => change_applied(&mut update, "$set", kept),
        }
        let mut filter = parent.to_filter(group)?;
        filter.extend(version_guard(&current));
        let guarded_update = rollup_update("update the parent", &filter, update)?;
        if apply_update(access.to(group.parent_model), guarded_update).await? > 0 {
            return Ok(Some((write_id, children)));
        }
        retry::pause_before_retry("the parent has changed since the read", attempt).await;
    }
    Err(contention_error(group.parent_model, &parent.id))
}

/// Returns the error of a parent that concurrent writes keep changing.
pub(super) fn contention_error(model: &Model, id: &Bson) -> Error {
    let message = format!(
        "too much contention on the parent {id}: the rollup update stays pending, and `db.run_pending()` completes it"
    );
    error::naming_model(model)(Error::new(ErrorKind::Conflict, message))
}
