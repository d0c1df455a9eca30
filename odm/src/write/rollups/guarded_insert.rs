//! Inserts of children on a standalone server, guarded by the rollup versions of the parents: the versions are read before the
//! insert, and nothing is read after the insert.
//!
//! If the rollup version of a parent is unchanged, the parent has no contribution of the new children, and no concurrent write
//! was computed from the state before the insert. A concurrent change or delete of a child records pending work and finds the
//! applied contributions. An applied contribution of an earlier document with the same `_id` rejects the update of the parent.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Document, oid::ObjectId};

use super::{
    MAX_CHILDREN_PER_BATCH,
    child::{ChildState, ParentDeltas, deltas_by_parent, record_contributions},
    contribution::RollupGroup,
    parent::{ParentIdentity, ParentKey},
    parent_update, rollup_update,
    standalone::{none_applied, push_applied, remove_applied, version_guard, version_guard_for},
};
use crate::{
    Result,
    backend::operation::Stage,
    metadata::rollup::ROLLUP_VERSION,
    model::ids::{OrderedId, ids_filter},
    pending::record::PendingToken,
    session::access::{Access, ModelAccess, find_matching},
    write::{
        maintainer::Revalidation,
        metadata_update::{apply_updates, parse_document, to_raw_document, to_raw_value},
    },
};

/// The parents of children that are about to be inserted.
pub(super) struct GuardedInsert {
    /// The version guards of the parents, by group.
    version_guards: Vec<BTreeMap<ParentKey, Document>>,
    /// The token of the children's revalidation. The revalidation is not necessary if no parent has changed.
    revalidation: Option<PendingToken>,
}

impl GuardedInsert {
    /// Reads the parents that were not read as copy sources. Costs one query for each reference. `None` if a parent does not
    /// exist, or if there are too many children for one write.
    pub(super) async fn read_parents(
        access: &Access,
        groups: &[RollupGroup],
        children: &[ChildState],
        revalidation: Option<&Revalidation>,
    ) -> Result<Option<Self>> {
        if children.len() > MAX_CHILDREN_PER_BATCH {
            return Ok(None);
        }
        let mut sources = BTreeMap::new();
        let copied = revalidation.map(|revalidation| &*revalidation.sources);
        for source in copied.unwrap_or_default() {
            let key = (source.model.collection, OrderedId::from_bson(&source.id)?);
            sources.insert(key, source);
        }
        let (mut version_guards, mut seen) = (Vec::new(), BTreeSet::new());
        for (position, group) in groups.iter().enumerate() {
            let parents = deltas_by_parent(children, position)?;
            for key in parents.keys() {
                // Two references to one parent: the first update changes the rollup version, so the guard of the second update
                // would fail.
                if !seen.insert((group.parent_model.collection, key.clone())) {
                    return Ok(None);
                }
            }
            let (mut known, mut unknown) = (BTreeMap::new(), Vec::new());
            for (key, deltas) in &parents {
                let id = to_raw_value(&deltas.parent.id)?;
                let source_key = (group.parent_model.collection, OrderedId::from_id(&id));
                let source = sources.get(&source_key);
                let condition = source.and_then(|source| source.unchanged_since_read());
                match source.zip(condition) {
                    Some((source, mut condition)) => {
                        condition.extend(version_guard_for(source.rollup_version.as_ref()));
                        known.insert(key.clone(), condition);
                    }
                    None => unknown.push(id),
                }
            }
            if !unknown.is_empty() {
                let filter = ids_filter(&unknown);
                let mut projection = ParentIdentity::identity_projection(group);
                projection.insert(ROLLUP_VERSION, 1);
                let find = find_matching(group.parent_model.collection, &filter)
                    .with_origin(Stage::ROLLUPS.step("read the parents"))
                    .with_projection(to_raw_document(&projection)?);
                for found in access.find_all(group.parent_model, find).await? {
                    let parent = parse_document(&found)?;
                    let key = ParentIdentity::of_document(group, &parent).to_key()?;
                    if parents.contains_key(&key) {
                        known.insert(key, version_guard(&parent));
                    }
                }
            }
            if known.len() < parents.len() {
                return Ok(None);
            }
            version_guards.push(known);
        }
        // The revalidation covers only sources that are parents and that existed at the read.
        let sources_are_guarded = sources.iter().all(|((collection, id), source)| {
            let mut groups_and_guards = groups.iter().zip(&version_guards);
            let is_guarded = groups_and_guards.any(|(group, known)| {
                group.parent_model.collection == *collection
                    && known.keys().any(|key| key.has_id(id))
            });
            is_guarded && source.unchanged_since_read().is_some()
        });
        let revalidation = revalidation.filter(|_| sources_are_guarded);
        let revalidation = revalidation.map(|revalidation| revalidation.token);
        Ok(Some(Self {
            version_guards,
            revalidation,
        }))
    }

    /// Whether the guards also show that the copied sources do not change. The contributions then remove the records of the
    /// revalidation.
    pub(super) fn confirms_sources(&self) -> bool {
        self.revalidation.is_some()
    }

    /// Applies the contributions after the insert. Returns `false` if a child or a parent was changed concurrently; a part of the
    /// contributions may be applied by then.
    pub(super) async fn apply_contributions(
        self,
        access: ModelAccess<'_>,
        groups: &[RollupGroup],
        children: &[ChildState],
    ) -> Result<bool> {
        let write_id = ObjectId::new();
        let mut applied = Vec::new();
        for (position, (group, version_guards)) in
            groups.iter().zip(&self.version_guards).enumerate()
        {
            let mut changes = Vec::new();
            for (key, parent_deltas) in deltas_by_parent(children, position)? {
                let ParentDeltas { parent, deltas } = parent_deltas;
                let group_key = group.group_key();
                let update = parent_update::build_update(access, group, &parent, None, &deltas);
                let mut update = update.await?;
                if push_applied(write_id, &group_key, &deltas, &mut update) {
                    applied.push((group.parent_model, parent.id.clone(), write_id));
                }
                let mut filter = parent.to_filter(group)?;
                let Some(version_guard) = version_guards.get(&key) else {
                    return Ok(false);
                };
                filter.extend(version_guard.clone());
                filter.extend(none_applied(&group_key, &deltas));
                changes.push(rollup_update("update the parents", &filter, update)?);
            }
            let count = changes.len() as u64;
            if apply_updates(access.to(group.parent_model), changes).await? < count {
                return Ok(false);
            }
        }
        let children: Vec<_> = children.iter().collect();
        let keeps_pending = false;
        let all_recorded = record_contributions(
            access,
            groups,
            &children,
            |_, _| true,
            keeps_pending,
            self.revalidation,
        );
        if !all_recorded.await? {
            return Ok(false);
        }
        remove_applied(&access, applied).await?;
        Ok(true)
    }
}
