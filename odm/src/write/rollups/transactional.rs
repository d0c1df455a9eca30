//! Rollups in a transaction: children and parents are written together.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use bson::{Bson, RawDocumentBuf};

use super::{
    PendingToken,
    child::{ChildState, ParentDeltas, deltas_by_parent, record_contributions},
    contribution::RollupGroup,
    parent::ParentKey,
    parent_update, queue,
    recompute::recompute_parent,
    rollup_update, subtract_deleted_children,
};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Stage,
    metadata,
    model::{
        ids::{ids_filter, one_of},
        stored::edit_fields,
    },
    parallel,
    pending::record::PendingKind,
    schema::Model,
    session::{
        access::{Access, ModelAccess},
        retry,
    },
    write::{
        WriteOperation, WriteOutcome,
        maintainer::WriteContext,
        metadata_update::{MetadataUpdate, apply_in_order, set_at, to_raw_value},
    },
};

/// The reason of the follow-up work for a missing parent, for the log.
const MISSING_PARENT: &str = "a parent is missing: its rollups are updated after the commit";

/// Whether each parent exists, by group.
type FoundParents = BTreeMap<(usize, ParentKey), bool>;

/// Updates the parents, then inserts the children.
pub(super) async fn insert_with_parents(
    cx: WriteContext,
    groups: &[RollupGroup],
    mut write: WriteOperation,
) -> Result<WriteOutcome> {
    let (access, model) = (&cx.access.clone(), cx.model);
    let full_access = access.with_full_visibility();
    let documents = write.documents_to_insert().unwrap_or_default();
    let children = ChildState::from_raws(groups, documents)?;
    let found_parents = update_parents(full_access.to(model), groups, &children).await;
    let found_parents = found_parents.map_err(|error| access.fail_transaction(error))?;
    let token = PendingToken::with_new_lease(access.lease());
    let recorded = parallel::map(documents.iter_mut().zip(&children), |(raw, child)| {
        let mut parents_exist = true;
        edit_fields(raw, &[metadata::FIELD], |metadata| {
            for (position, group) in groups.iter().enumerate() {
                let mut record = Vec::new();
                for contribution in child.contributions.get(position).into_iter().flatten() {
                    let parent = child.parent_with_id(position, &contribution.parent_id);
                    let key = parent.map(|parent| parent.to_key()).transpose()?;
                    let exists = key.is_none_or(|key| is_found(&found_parents, position, &key));
                    parents_exist &= exists;
                    record.push(contribution.to_record(exists));
                }
                group.write_record(metadata, record);
            }
            if !parents_exist {
                let path = PendingKind::ROLLUP.record_path();
                set_at(metadata, path, token.to_document());
            }
            Ok(())
        })?;
        Ok(parents_exist)
    });
    let all_parents_exist = recorded?.into_iter().all(|parents_exist| parents_exist);
    let outcome = cx.run_next(write).await;
    let outcome = outcome.map_err(|error| access.fail_transaction(error))?;
    if !all_parents_exist {
        retry::log_fallback(model, MISSING_PARENT);
        // The missing parents may be inserted concurrently: try again after the commit.
        super::apply_in_background(access.to(model), token);
    }
    Ok(outcome)
}

/// Whether a parent was found. A parent that was not read counts as found.
fn is_found(found_parents: &FoundParents, group: usize, parent: &ParentKey) -> bool {
    found_parents
        .get(&(group, parent.clone()))
        .copied()
        .unwrap_or(true)
}

/// Applies the contributions of the children that a filter matches. `includes_write` means that the transaction also contains the
/// write of the children.
pub(super) async fn apply_contributions(
    access: ModelAccess<'_>,
    filter: RawDocumentBuf,
    includes_write: bool,
) -> Result<()> {
    let model = access.model;
    let full_access = access.with_full_visibility();
    let full_access = full_access.to(model);
    let groups = super::rollup_groups(full_access.schema_models(), model);
    let children = ChildState::read_matching(full_access, &groups, &filter).await?;
    let found_parents = update_parents(full_access, &groups, &children).await?;
    let all_parents_exist = found_parents.values().all(|exists| *exists);
    let children: Vec<_> = children.iter().collect();
    // A missing parent may be inserted concurrently, so the children are processed again after the commit.
    let parent_exists = |group, parent: &ParentKey| is_found(&found_parents, group, parent);
    record_contributions(
        full_access,
        &groups,
        &children,
        parent_exists,
        includes_write,
        None,
    )
    .await?;
    if !all_parents_exist && includes_write {
        retry::log_fallback(model, MISSING_PARENT);
        let ids = children.iter().map(|child| to_raw_value(&child.id));
        let id_filter = ids_filter(&ids.collect::<Result<Vec<_>>>()?);
        queue::run_in_background(&access, move |access| {
            queue::apply_matching_boxed(access, model, id_filter)
        });
    }
    Ok(())
}

/// Updates the parents of some children, in one command for each group. Returns whether each parent exists.
pub(super) async fn update_parents(
    access: ModelAccess<'_>,
    groups: &[RollupGroup],
    children: &[ChildState],
) -> Result<FoundParents> {
    let mut found_parents = FoundParents::new();
    for (position, group) in groups.iter().enumerate() {
        let (mut updated, mut updates) = (Vec::new(), Vec::new());
        for (key, parent_deltas) in deltas_by_parent(children, position)? {
            match parent_change(access, group, &parent_deltas).await? {
                ParentChange::Unchanged => {}
                ParentChange::Missing => {
                    found_parents.insert((position, key), false);
                }
                ParentChange::Update(update) => {
                    updates.push((parent_deltas.parent.id.clone(), update));
                    updated.push((key, parent_deltas.parent));
                }
            }
        }
        let expected = updates.len() as u64;
        let matched = apply_in_order(access.to(group.parent_model), updates).await?;
        for (key, parent) in updated {
            let exists = matched == expected
                || parent_update::read_parent(&access, group, &parent)
                    .await?
                    .is_some();
            found_parents.insert((position, key), exists);
        }
    }
    Ok(found_parents)
}

/// What a change of children does to a parent.
enum ParentChange {
    Unchanged,
    Missing,
    Update(MetadataUpdate),
}

/// Returns the change of a parent.
async fn parent_change(
    access: ModelAccess<'_>,
    group: &RollupGroup,
    parent_deltas: &ParentDeltas<'_>,
) -> Result<ParentChange> {
    let ParentDeltas { parent, deltas } = parent_deltas;
    let is_new = deltas.iter().all(|delta| delta.is_new);
    let may_change_list = group.has_list() && !is_new;
    let current = match may_change_list {
        true => match parent_update::read_parent(&access, group, parent).await? {
            None => return Ok(ParentChange::Missing),
            current => current,
        },
        false => None,
    };
    let update = parent_update::build_update(access, group, parent, current.as_ref(), deltas).await;
    let update = update.map_err(|error| error.with_id(parent.id.clone()))?;
    // With a list of children, write the rollup version even without another change. A concurrent worker may be reading the list
    // again with an old value of the child, and must conflict with this write.
    let is_unchanged =
        update.len() == 1 && update.get_document("$inc").is_ok_and(|add| add.len() == 1);
    if is_unchanged && !may_change_list {
        return Ok(ParentChange::Unchanged);
    }
    let update = rollup_update("update the parent", &parent.to_filter(group)?, update)?;
    Ok(ParentChange::Update(update))
}

/// Deletes children and subtracts the contributions from the parents, up to `max_documents` documents. Returns whether all
/// documents were deleted.
///
/// A missing parent may be inserted concurrently, and would count children that are deleted here. In this case nothing is
/// deleted, and `is_parent_missing` is set.
pub(super) async fn delete_with_parents(
    cx: WriteContext,
    mut write: WriteOperation,
    max_documents: Option<usize>,
    is_parent_missing: &AtomicBool,
) -> Result<(WriteOutcome, bool)> {
    let (access, model) = (&cx.access.clone(), cx.model);
    let is_single = write.affects_at_most_one();
    let find = write.find_affected(model, max_documents);
    let find = find.with_origin(Stage::ROLLUPS.step("read the children to delete"));
    let ids = access.to(model).find_ids(find).await?;
    let is_complete =
        is_single || max_documents.is_none_or(|max_documents| ids.len() < max_documents);
    write.add_condition("_id", one_of(&ids))?;
    let work = async {
        let full_access = access.with_full_visibility();
        let deleted = super::read_deleted_children(full_access.to(model), &ids).await?;
        let outcome = cx.run_next(write).await?;
        if let Some(deleted) = deleted {
            let missing = subtract_deleted_children(full_access.to(model), deleted).await?;
            // A transaction of the caller cannot be rolled back here.
            if max_documents.is_some() && !missing.0.is_empty() {
                is_parent_missing.store(true, Ordering::Relaxed);
                let message =
                    "a parent of a deleted child is missing and may be inserted concurrently";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            missing.recompute_after_commit(access);
        }
        Ok((outcome, is_complete))
    };
    work.await.map_err(|error| access.fail_transaction(error))
}

/// Parents with recorded contributions that do not exist.
#[derive(Debug, Default)]
pub(super) struct MissingParents(Vec<(&'static Model, Bson)>);

impl MissingParents {
    /// Returns the missing parents that have recorded contributions.
    pub(super) fn find_missing(
        found_parents: &FoundParents,
        groups: &[RollupGroup],
        children: &[ChildState],
    ) -> Result<Self> {
        let mut missing = Self::default();
        for (position, group) in groups.iter().enumerate() {
            for (key, parent_deltas) in deltas_by_parent(children, position)? {
                let mut deltas = parent_deltas.deltas.iter();
                if !is_found(found_parents, position, &key)
                    && deltas.any(|delta| !delta.old_values.is_empty())
                {
                    missing
                        .0
                        .push((group.parent_model, parent_deltas.parent.id));
                }
            }
        }
        Ok(missing)
    }

    /// Recomputes these parents after the commit, if the parents exist by then: they may have counted deleted children.
    pub(super) fn recompute_after_commit(self, access: &Access) {
        if self.0.is_empty() {
            return;
        }
        queue::run_in_background(access, async move |access| {
            for (parent_model, id) in &self.0 {
                recompute_parent(access.to(parent_model), id).await?;
            }
            Ok(())
        });
    }
}
