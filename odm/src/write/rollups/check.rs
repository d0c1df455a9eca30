//! The check of rollups: comparing stored rollups with the contributions of the children.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{
    contribution::{RollupGroup, child_fields, rollup_groups_of_parent},
    is_parent_model,
    parent::{ParentIdentity, ParentKey},
    parent_update::read_list,
    recompute::for_each_document,
    sum::{RollupSums, add_values},
};
use crate::{
    Result,
    model::{ids::OrderedId, stored::parse_fields},
    pending::record::PendingKind,
    schema::{Model, upgrade},
    session::access::ModelAccess,
    write::metadata_update::{parse_document, to_raw_document, value_at},
};

/// A rollup that differs from the contributions of the children.
#[derive(Debug, Clone)]
pub(crate) struct WrongCount {
    /// The position of the document in the batch.
    pub(crate) batch_position: usize,
    pub(crate) path: &'static str,
    /// The model of the children.
    pub(crate) child_model: &'static Model,
    pub(crate) actual: Bson,
    pub(crate) expected: Bson,
}

/// Returns the rollups in a batch that differ from the contributions of the children, unless pending work will update the rollup.
pub(crate) async fn find_wrong_rollups(
    access: ModelAccess<'_>,
    batch: &[RawDocumentBuf],
) -> Result<Vec<WrongCount>> {
    let mut wrong = Vec::new();
    if !is_parent_model(access.model) {
        return Ok(wrong);
    }
    let mut parents = BTreeMap::new();
    for (batch_position, raw) in batch.iter().enumerate() {
        let document = parse_document(raw)?;
        let is_pending = PendingKind::RECOMPUTE.lease_end(raw)?.is_some();
        if let (Some(id), false) = (document.get("_id").cloned(), is_pending) {
            parents.insert(OrderedId::from_bson(&id)?, (batch_position, id, document));
        }
    }
    for group in rollup_groups_of_parent(access.schema_models(), access.model) {
        let ids: Vec<_> = parents.values().map(|(_, id, _)| id.clone()).collect();
        let ContributionSums { sums, pending } =
            sum_contributions(access.to(group.child_model), &group, ids).await?;
        for (batch_position, _, document) in parents.values() {
            let parent = ParentIdentity::of_document(&group, document);
            let key = &parent.to_key()?;
            if pending.contains(key) {
                continue;
            }
            for (position, rollup) in group.rollups.iter().enumerate() {
                // The check of computed fields compares a field that is computed from the state.
                let actual = value_at(document, &rollup.state_path());
                let actual = actual.cloned().unwrap_or(Bson::Null);
                let expected = match rollup.child_list() {
                    None => {
                        let sum = sums.get(key).and_then(|sums| sums.get(rollup.stored));
                        // A sum that does not fit into an `i64` keeps the work of a child pending, so there is no finding.
                        match sum
                            .copied()
                            .unwrap_or_default()
                            .to_state(access.model, rollup)
                        {
                            Ok(state) => state,
                            Err(_) => continue,
                        }
                    }
                    Some(_) => {
                        let parent = (position, &parent);
                        let filter = Document::new();
                        let children = access.to(group.child_model);
                        Bson::Array(read_list(children, &group, parent, filter).await?)
                    }
                };
                if actual != expected {
                    wrong.push(WrongCount {
                        batch_position: *batch_position,
                        path: rollup.stored,
                        child_model: group.child_model,
                        actual,
                        expected,
                    });
                }
            }
        }
    }
    Ok(wrong)
}

/// The rollup values that result from the children, by parent.
#[derive(Default)]
struct ContributionSums {
    sums: BTreeMap<ParentKey, RollupSums>,
    /// The parents with a child whose contribution is pending.
    pending: BTreeSet<ParentKey>,
}

async fn sum_contributions(
    access: ModelAccess<'_>,
    group: &RollupGroup,
    parent_ids: Vec<Bson>,
) -> Result<ContributionSums> {
    let mut contributions = ContributionSums::default();
    let filter = group.children_condition(&doc! { "$in": parent_ids });
    let fields = child_fields(std::slice::from_ref(group));
    for_each_document(access, &to_raw_document(&filter)?, None, &mut |raw| {
        let current = upgrade::upgrade_for_read(access.model, raw)?;
        let document = parse_fields(&current, &fields)?;
        let is_pending = PendingKind::ROLLUP.lease_end(raw)?.is_some()
            || PendingKind::REFERENCES.lease_end(raw)?.is_some();
        for contribution in group.contributions_of(&document)? {
            let parent_id = contribution.parent_id.clone();
            let parent = ParentIdentity::of_child(group, &document, parent_id).to_key()?;
            let sums = contributions.sums.entry(parent.clone()).or_default();
            add_values(sums, &contribution.values);
            if is_pending {
                contributions.pending.insert(parent);
            }
        }
        if is_pending {
            for recorded in group.recorded_contributions(&document) {
                let parent = ParentIdentity::of_child(group, &document, recorded.parent_id);
                contributions.pending.insert(parent.to_key()?);
            }
        }
        Ok(())
    })
    .await?;
    Ok(contributions)
}
