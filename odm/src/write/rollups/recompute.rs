//! Recomputing rollups from all children: for new parents, and for repairs.

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf, doc};

use super::{
    ChildState, MAX_CHILDREN_PER_BATCH, MAX_UPDATE_ATTEMPTS, PendingToken, clear_pending,
    contribution::{RollupGroup, child_fields, rollup_groups_of_parent},
    parent::ParentIdentity,
    parent_update, queue, rollup_groups, rollup_update,
    standalone::{contention_error, values_by_child, version_guard},
    sum::{RollupSums, add_values},
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Stage,
    error,
    language::query::{id_filter, single_field_document},
    metadata::{
        ParsedMetadata,
        rollup::{CONTRIBUTIONS, ROLLUP_VERSION},
    },
    model::{
        ids::{OrderedId, id_batches},
        stored::parse_fields,
    },
    pending::{
        blocked::{self, Rejection, is_rejection},
        record::PendingKind,
    },
    schema::upgrade,
    session::{
        access::{ModelAccess, find_matching},
        retry,
    },
    write::metadata_update::{
        apply_update, parse_document, to_raw_document, to_raw_value, value_at,
    },
};

/// Recomputes the rollups of new parents. `initial_version` is the initial rollup version.
///
/// The children can belong to an earlier document with the same `_id`: they have recorded contributions to the new parent. A
/// child that moved away in the meantime has subtracted a contribution from the new parent, and has changed the rollup version. A
/// writer that is about to subtract has read the rollup version already. A new parent without children therefore also increments
/// the version, so that the late write of that writer fails.
pub(super) async fn recompute_new_parents(
    access: ModelAccess<'_>,
    token: PendingToken,
    initial_version: i64,
) -> Result<()> {
    let ids = parent_ids(access, token.token_filter(PendingKind::RECOMPUTE)?).await?;
    let mut has_children = false;
    for group in rollup_groups_of_parent(access.schema_models(), access.model) {
        let filter = group.children_condition(&doc! { "$in": ids.clone() });
        let find = find_matching(group.child_model.collection, &to_raw_document(&filter)?)
            .with_origin(Stage::ROLLUPS.step("look for earlier children"))
            .with_limit(1);
        let found = access.to(group.child_model).find_ids(find).await?;
        has_children |= !found.is_empty();
    }
    if !has_children {
        let mut filter = parse_document(&token.token_filter(PendingKind::RECOMPUTE)?)?;
        filter.insert(ROLLUP_VERSION, doc! { "$eq": initial_version });
        let update = doc! { "$unset": { PendingKind::RECOMPUTE.record_path(): "" }, "$inc": { ROLLUP_VERSION: 1_i64 } };
        let confirmation = rollup_update("confirm the new parents", &filter, update)?;
        let updated = apply_update(access, confirmation).await?;
        if updated == ids.len() as u64 {
            return Ok(());
        }
    }
    let mut blocked = None;
    for id in parent_ids(access, token.token_filter(PendingKind::RECOMPUTE)?).await? {
        blocked = blocked.or(recompute_or_record(access, &id).await?);
    }
    // A blocked parent has another lease now and keeps the pending work.
    clear_pending(access, PendingKind::RECOMPUTE, token).await?;
    blocked.map_or(Ok(()), Err)
}

/// Recomputes the rollups of a parent. Returns the error of a parent that rejects the update; the parent gets a record of the
/// rejection.
async fn recompute_or_record(access: ModelAccess<'_>, id: &Bson) -> Result<Option<Error>> {
    match recompute_parent(access, id).await {
        Err(error) if is_rejection(&error) => {
            let rejections = Rejection::from_error(&error, access.model, id);
            let (kind, filter) = (PendingKind::RECOMPUTE, id_filter(&to_raw_value(id)?));
            blocked::record_rejections(access, kind, filter, &rejections).await?;
            Ok(Some(blocked::blocked_error(access.model, &rejections)))
        }
        result => result.map(|_| None),
    }
}

/// Recomputes the rollups of abandoned parents. A failure does not stop the remaining parents.
pub(super) async fn recompute_abandoned(access: ModelAccess<'_>, ids: &[RawBson]) -> Result<()> {
    let mut first_error = None;
    let projection = single_field_document(PendingKind::RECOMPUTE.record_path(), 1)?;
    for id in ids {
        let find = access
            .find_matching(&id_filter(id))
            .with_origin(Stage::ROLLUPS.step("read the parent"))
            .with_projection(projection.clone())
            .with_limit(1);
        let parents = access.find_all(find).await?;
        let pending = parents.first();
        let pending = pending.map(|raw| PendingToken::from_stored(raw, PendingKind::RECOMPUTE));
        let Some(pending) = pending.transpose()?.flatten() else {
            continue;
        };
        let id = Bson::try_from(id.clone()).map_err(error::from_bson)?;
        match recompute_or_record(access, &id).await {
            Ok(None) => drop(clear_pending(access, PendingKind::RECOMPUTE, pending).await?),
            Err(error) if error.kind() == ErrorKind::Connection => return Err(error),
            Ok(Some(error)) | Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// Returns the ids of the parents that a filter matches.
async fn parent_ids(access: ModelAccess<'_>, filter: RawDocumentBuf) -> Result<Vec<Bson>> {
    let find = access
        .find_matching(&filter)
        .with_origin(Stage::ROLLUPS.step("read the parents"))
        .with_projection(single_field_document("_id", 1)?);
    let parents = access.find_all(find).await?;
    let ids = parents.iter().map(|raw| {
        Ok(parse_document(raw)?
            .get("_id")
            .cloned()
            .unwrap_or(Bson::Null))
    });
    ids.collect()
}

/// Recomputes the rollups of a parent from all children. Returns whether a rollup changed.
///
/// First, each child with an outdated record applies the contribution, as after a write. This includes children that moved to
/// another parent: a worker may have found no parent here, and would remove the record without updating this parent. Then the
/// recorded contributions are summed. The sum is written only if the rollup version is unchanged.
pub(crate) async fn recompute_parent(access: ModelAccess<'_>, id: &Bson) -> Result<bool> {
    let full_access = access.with_full_visibility();
    let mut is_changed = false;
    for group in rollup_groups_of_parent(full_access.schema_models(), access.model) {
        let children = full_access.to(group.child_model);
        // The scope of a missing parent is unknown: read all children that refer to the `_id`.
        let parent = parent_update::read_parent_in_any_scope(&full_access, &group, id).await?;
        let parent = parent.map(|parent| ParentIdentity::of_document(&group, &parent));
        let same_scope = parent.map_or_else(Document::new, |parent| parent.scope_condition(&group));
        let outdated = outdated_children(children, &group, id, same_scope).await?;
        for batch in id_batches(&outdated, MAX_CHILDREN_PER_BATCH) {
            let filter = doc! { "_id": { "$in": batch } };
            // Keep existing tokens: the writers of these children wait for their own tokens.
            let mut unmarked = filter.clone();
            unmarked.insert(PendingKind::ROLLUP.lease_path(), doc! { "$exists": false });
            let update = doc! { "$set": { PendingKind::ROLLUP.record_path(): PendingToken::with_new_lease(access.lease()).to_document() } };
            let mark = rollup_update("mark the outdated children", &unmarked, update)?;
            apply_update(children, mark).await?;
            match queue::apply_matching(children, to_raw_document(&filter)?).await {
                // Children with another rejecting parent stay pending.
                Err(error) if error.kind() == ErrorKind::StillPending => {}
                result => result?,
            }
            is_changed = true;
        }
        is_changed |= write_recorded_sums(children, &group, id).await?;
    }
    Ok(is_changed)
}

/// Returns the children of a parent, and children that moved away, whose record differs from the current contributions.
async fn outdated_children(
    access: ModelAccess<'_>,
    group: &RollupGroup,
    id: &Bson,
    same_scope: Document,
) -> Result<Vec<Bson>> {
    let groups = rollup_groups(access.schema_models(), access.model);
    let fields = child_fields(&groups);
    let mut outdated = Vec::new();
    let mut filter = group.children_condition(&doc! { "$eq": id.clone() });
    filter.extend(same_scope);
    let filter = to_raw_document(&filter)?;
    for_each_document(access, &filter, None, &mut |raw| {
        let current = upgrade::upgrade_for_read(access.model, raw)?;
        let child = parse_fields(&current, &fields)?;
        let child = ChildState::from_document(&groups, &child)?;
        if !child.is_up_to_date() {
            outdated.push(child.id);
        }
        Ok(())
    })
    .await?;
    Ok(outdated)
}

/// Writes the sums of the recorded contributions into a parent. Returns whether a rollup changed.
async fn write_recorded_sums(
    access: ModelAccess<'_>,
    group: &RollupGroup,
    id: &Bson,
) -> Result<bool> {
    let parent_key = OrderedId::from_bson(id)?;
    for attempt in 1..=MAX_UPDATE_ATTEMPTS {
        let Some(current) = parent_update::read_parent_in_any_scope(&access, group, id).await?
        else {
            return Ok(false);
        };
        let parent = ParentIdentity::of_document(group, &current);
        let mut filter = group.children_condition(&doc! { "$eq": id.clone() });
        filter.extend(parent.scope_condition(group));
        let filter = to_raw_document(&filter)?;
        let applied = ParsedMetadata::of(&current).applied_contributions();
        let applied = values_by_child(&applied, &group.group_key())?;
        let mut sums = RollupSums::new();
        let projection = to_raw_document(&doc! { CONTRIBUTIONS: 1 })?;
        for_each_document(access, &filter, Some(projection), &mut |raw| {
            let document = parse_document(raw)?;
            let child_id = document.get("_id").map(to_raw_value).transpose()?;
            let applied_of_child = child_id
                .as_ref()
                .and_then(|id| applied.get(&OrderedId::from_id(id)));
            for recorded in group.recorded_contributions(&document) {
                if OrderedId::from_bson(&recorded.parent_id)? == parent_key {
                    add_values(&mut sums, applied_of_child.unwrap_or(&recorded.values));
                }
            }
            Ok(())
        })
        .await?;
        let mut set = Document::new();
        for (position, rollup) in group.rollups.iter().enumerate() {
            let expected = match rollup.child_list() {
                None => {
                    let sum = sums.get(rollup.stored).copied().unwrap_or_default();
                    let state = sum.to_state(group.parent_model, rollup);
                    state.map_err(|error| error.with_id(id.clone()))?
                }
                Some(_) => Bson::Array(
                    parent_update::read_recorded_list(access, group, position, &parent).await?,
                ),
            };
            let path = rollup.state_path();
            if value_at(&current, &path) != Some(&expected) {
                set.insert(path, expected);
            }
        }
        // Write the rollup version even without a change: the write proves that the parent was unchanged since the read.
        let is_changed = !set.is_empty();
        let mut filter = parent.to_filter(group)?;
        filter.extend(version_guard(&current));
        let mut update = doc! { "$inc": { ROLLUP_VERSION: 1_i64 } };
        if is_changed {
            update.insert("$set", set);
        }
        let guarded_update = rollup_update("write the recomputed values", &filter, update)?;
        let updated = apply_update(access.to(group.parent_model), guarded_update).await;
        if updated.map_err(|error| error.with_id(id.clone()))? > 0 {
            return Ok(is_changed);
        }
        retry::pause_before_retry("the parent has changed since the read", attempt).await;
    }
    Err(contention_error(group.parent_model, id))
}

/// Calls `visit` for each document that a filter matches, batch by batch.
pub(super) async fn for_each_document(
    access: ModelAccess<'_>,
    filter: &RawDocumentBuf,
    projection: Option<RawDocumentBuf>,
    visit: &mut (impl FnMut(&RawDocument) -> Result<()> + Send),
) -> Result<()> {
    let find = access
        .find_matching(filter)
        .with_origin(Stage::ROLLUPS.step("read the children"))
        .with_projection(projection);
    let mut cursor = access.find(find).await?;
    loop {
        let batch = cursor.next_batch().await;
        let batch = batch.map_err(error::naming_model(access.model))?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.iter().try_for_each(|raw| visit(raw))?;
    }
}
