//! Children as they are read: the current contributions and the recorded contributions.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, oid::ObjectId};

use super::{
    contribution::{Contribution, RollupGroup, child_fields},
    parent::{ParentIdentity, ParentKey},
    rollup_update,
};
use crate::{
    Result,
    backend::operation::Stage,
    metadata::{ParsedMetadata, rollup::RecordedContribution},
    model::{
        ids::{HasId, OrderedId},
        stored::parse_fields,
    },
    parallel,
    pending::record::{PendingKind, PendingToken},
    schema::upgrade::read_upgraded,
    session::access::ModelAccess,
    write::metadata_update::apply_updates,
};

/// A child document with the current and the recorded contributions.
#[derive(Debug, Clone)]
pub(super) struct ChildState {
    pub(super) id: Bson,
    /// The token of the pending work; `None` without pending work.
    pub(super) token: Option<ObjectId>,
    /// The current contributions, by group.
    pub(super) contributions: Vec<Vec<Contribution>>,
    /// The recorded contributions, by group.
    pub(super) recorded: Vec<Vec<RecordedContribution>>,
    /// A parent of each group. All parents of a group have the same scope.
    parents: Vec<ParentIdentity>,
}

impl HasId for ChildState {
    fn id_bytes(&self) -> usize {
        self.id.id_bytes()
    }
}

/// The change of a child's contribution to one parent.
#[derive(Debug)]
pub(super) struct ContributionDelta<'m> {
    pub(super) child_id: &'m Bson,
    pub(super) old_values: Document,
    /// The new contribution; `None` if the child no longer contributes.
    pub(super) new: Option<&'m Contribution>,
    /// Whether the parent has no contribution of the child yet.
    pub(super) is_new: bool,
}

/// The changes for one parent.
#[derive(Debug)]
pub(super) struct ParentDeltas<'m> {
    pub(super) parent: ParentIdentity,
    pub(super) deltas: Vec<ContributionDelta<'m>>,
}

impl ChildState {
    /// Reads the children of several documents.
    pub(super) fn from_raws(groups: &[RollupGroup], raws: &[RawDocumentBuf]) -> Result<Vec<Self>> {
        let fields = child_fields(groups);
        parallel::map(raws.iter(), |raw| {
            Self::from_document(groups, &parse_fields(raw, &fields)?)
        })
    }

    pub(super) fn from_document(groups: &[RollupGroup], document: &Document) -> Result<Self> {
        let contributions = groups.iter().map(|group| group.contributions_of(document));
        let recorded = groups
            .iter()
            .map(|group| group.recorded_contributions(document));
        let parents = groups
            .iter()
            .map(|group| ParentIdentity::of_child(group, document, Bson::Null));
        Ok(Self {
            id: document.get("_id").cloned().unwrap_or(Bson::Null),
            token: ParsedMetadata::of(document).pending_token(PendingKind::ROLLUP),
            contributions: contributions.collect::<Result<_>>()?,
            recorded: recorded.collect(),
            parents: parents.collect(),
        })
    }

    /// Returns the children that a filter matches.
    pub(super) async fn read_matching(
        access: ModelAccess<'_>,
        groups: &[RollupGroup],
        filter: &RawDocument,
    ) -> Result<Vec<Self>> {
        let find = access
            .find_matching(filter)
            .with_origin(Stage::ROLLUPS.step("read the children"));
        let documents = read_upgraded(&access, access.model, find).await?;
        Self::from_raws(groups, &documents)
    }

    /// Returns the condition that the contributions did not change since the read: every change of a contribution also changes
    /// the token.
    pub(super) fn unchanged_since_read(&self) -> Document {
        let token = match self.token {
            Some(token) => doc! { "$eq": token },
            None => doc! { "$exists": false },
        };
        doc! { PendingKind::ROLLUP.token_path(): token }
    }

    /// Removes all current contributions: the child is being deleted.
    pub(super) fn remove_contributions(&mut self) {
        self.contributions.iter_mut().for_each(Vec::clear);
    }

    pub(super) fn id_key(&self) -> Result<OrderedId> {
        OrderedId::from_bson(&self.id)
    }

    /// Returns the recorded contribution to a parent. `None` if nothing is recorded for this parent.
    pub(super) fn recorded_at(
        &self,
        group: usize,
        parent: &OrderedId,
    ) -> Result<Option<&RecordedContribution>> {
        for recorded in self.recorded.get(group).into_iter().flatten() {
            if OrderedId::from_bson(&recorded.parent_id)? == *parent {
                return Ok(Some(recorded));
            }
        }
        Ok(None)
    }

    /// Returns the current contribution to a parent.
    pub(super) fn contribution_to(
        &self,
        group: usize,
        parent: &OrderedId,
    ) -> Result<Option<&Contribution>> {
        for contribution in self.contributions.get(group).into_iter().flatten() {
            if OrderedId::from_bson(&contribution.parent_id)? == *parent {
                return Ok(Some(contribution));
            }
        }
        Ok(None)
    }

    /// Returns the parent with this `_id` in a group. `None` if the group does not exist.
    pub(super) fn parent_with_id(&self, group: usize, id: &Bson) -> Option<ParentIdentity> {
        let parent = self.parents.get(group)?;
        Some(parent.with_id(id.clone()))
    }

    /// Returns the key of a parent.
    fn parent_key(&self, group: usize, id: &Bson) -> Result<Option<ParentKey>> {
        let parent = self.parent_with_id(group, id);
        parent.map(|parent| parent.to_key()).transpose()
    }

    /// Returns the parents with a current or a recorded contribution.
    fn affected_parents(&self, group: usize) -> Result<BTreeMap<OrderedId, ParentIdentity>> {
        let contributions = self.contributions.get(group).into_iter().flatten();
        let recorded = self.recorded.get(group).into_iter().flatten();
        let parent_ids = contributions.map(|contribution| &contribution.parent_id);
        let parent_ids = parent_ids.chain(recorded.map(|recorded| &recorded.parent_id));
        let parents = parent_ids.filter_map(|id| self.parent_with_id(group, id));
        parents
            .map(|parent| Ok((OrderedId::from_bson(&parent.id)?, parent)))
            .collect()
    }

    /// Whether the recorded contributions equal the current ones. Entries of latest-N lists are not recorded.
    pub(super) fn is_up_to_date(&self) -> bool {
        let mut pairs = self.contributions.iter().zip(&self.recorded);
        pairs.all(|(contributions, recorded)| {
            contributions.len() == recorded.len()
                && contributions.iter().all(|contribution| {
                    let mut recorded = recorded.iter();
                    recorded.any(|recorded| {
                        recorded.parent_id == contribution.parent_id
                            && recorded.values == contribution.values
                    })
                })
        })
    }
}

/// Groups the changes by parent, in the order of the parent keys. All workers write parents in this order, which prevents
/// deadlocks.
pub(super) fn deltas_by_parent(
    children: &[ChildState],
    group: usize,
) -> Result<BTreeMap<ParentKey, ParentDeltas<'_>>> {
    let mut by_parent = BTreeMap::new();
    for child in children {
        for (key, parent) in child.affected_parents(group)? {
            let recorded = child.recorded_at(group, &key)?;
            let delta = ContributionDelta {
                child_id: &child.id,
                old_values: recorded.map_or_else(Document::new, |recorded| recorded.values.clone()),
                new: child.contribution_to(group, &key)?,
                is_new: recorded.is_none(),
            };
            let parent_deltas = by_parent
                .entry(parent.to_key()?)
                .or_insert_with(|| ParentDeltas {
                    parent,
                    deltas: Vec::new(),
                });
            parent_deltas.deltas.push(delta);
        }
    }
    Ok(by_parent)
}

/// Records the current contributions in the children and removes the pending work. Skips children that changed since the read.
/// Returns whether all children were updated.
///
/// `parent_exists` returns whether a parent exists. For a missing parent, the child records an empty contribution. With
/// `keeps_pending`, the child keeps the old record and the pending work, because the parent may be inserted concurrently. An
/// unchanged record always stays: a parent that was inserted meanwhile may have included the record in a sum, and skips children
/// with an unchanged record.
///
/// With `revalidation`, the same write also removes the pending revalidation with this token.
pub(super) async fn record_contributions(
    access: ModelAccess<'_>,
    groups: &[RollupGroup],
    children: &[&ChildState],
    parent_exists: impl Fn(usize, &ParentKey) -> bool,
    keeps_pending: bool,
    revalidation: Option<PendingToken>,
) -> Result<bool> {
    // Children with the same update share one write.
    let mut by_update: Vec<(Document, Document, Vec<Bson>)> = Vec::new();
    for child in children {
        let parent_exists = |group: usize, id: &Bson| -> Result<bool> {
            let key = child.parent_key(group, id)?;
            Ok(key.is_none_or(|key| parent_exists(group, &key)))
        };
        let (mut set, mut unset) = (Document::new(), Document::new());
        let mut all_parents_exist = true;
        for (position, group) in groups.iter().enumerate() {
            let mut record = Vec::new();
            for contribution in child.contributions.get(position).into_iter().flatten() {
                let parent = OrderedId::from_bson(&contribution.parent_id)?;
                let exists = parent_exists(position, &contribution.parent_id)?;
                all_parents_exist &= exists;
                record.push(match child.recorded_at(position, &parent)? {
                    Some(recorded)
                        if !exists && (keeps_pending || recorded.values == contribution.values) =>
                    {
                        recorded.to_document()
                    }
                    _ => contribution.to_record(exists),
                });
            }
            for recorded in child.recorded.get(position).into_iter().flatten() {
                let key = OrderedId::from_bson(&recorded.parent_id)?;
                if keeps_pending
                    && !parent_exists(position, &recorded.parent_id)?
                    && child.contribution_to(position, &key)?.is_none()
                {
                    all_parents_exist = false;
                    record.push(recorded.to_document());
                }
            }
            if !record.is_empty() {
                set.insert(group.record_path(), record);
            } else if !child.recorded.get(position).is_none_or(Vec::is_empty) {
                unset.insert(group.record_path(), "");
            }
        }
        if child.token.is_some() && (all_parents_exist || !keeps_pending) {
            unset.insert(PendingKind::ROLLUP.record_path(), "");
        }
        if revalidation.is_some() {
            unset.insert(PendingKind::REVALIDATE.record_path(), "");
        }
        let mut update = Document::new();
        for (operator, fields) in [("$set", set), ("$unset", unset)] {
            if !fields.is_empty() {
                update.insert(operator, fields);
            }
        }
        if update.is_empty() {
            continue;
        }
        let mut unchanged = child.unchanged_since_read();
        unchanged.extend(
            revalidation
                .iter()
                .flat_map(|token| doc! { PendingKind::REVALIDATE.token_path(): token.token }),
        );
        let existing = by_update
            .iter_mut()
            .find(|(condition, other, _)| *condition == unchanged && *other == update);
        match existing {
            Some((_, _, ids)) => ids.push(child.id.clone()),
            None => by_update.push((unchanged, update, vec![child.id.clone()])),
        }
    }
    let mut count = 0;
    let changes = by_update.into_iter().map(|(condition, update, ids)| {
        count += ids.len() as u64;
        let mut filter = doc! { "_id": { "$in": ids } };
        filter.extend(condition);
        rollup_update("record the contributions", &filter, update)
    });
    let changes = changes.collect::<Result<_>>()?;
    Ok(apply_updates(access, changes).await? == count)
}
