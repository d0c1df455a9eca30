//! The changes of a write on references, read from the footprint alone.

use bson::{RawBson, RawBsonRef, RawDocument};

use super::{
    delete_rule::rules_targeting,
    linked_document::{LinkedDocument, ids_in, ids_in_fields},
    soft_cascade::{self, SoftDeleteChange, cascading_links, cascading_rules},
};
use crate::{
    backend::operation::DocumentChange,
    model::{ids::contains_id, stored::root_of},
    schema::{LinkField, LinkStep, Model, ReferenceLink},
    session::access::ModelAccess,
    write::{
        Footprint,
        footprint::{Operator, PathChange, path_changes},
        maintainer::{DeleteFollowUp, Strategy, WriteContext},
        reference_scope::can_add_reference,
    },
};

/// Whether a write may need follow-up work on references. A write without such work costs one operation.
pub(super) fn may_change_references(cx: &WriteContext, footprint: &Footprint<'_>) -> bool {
    let (access, model) = (&cx.access, cx.model);
    let is_standalone = cx.strategy == Strategy::Standalone;
    match footprint {
        Footprint::Inserts(_) => {
            !model.links().is_empty() || !model.inverses.is_empty() && is_standalone
        }
        Footprint::Removes => {
            let mut rules = rules_targeting(access.to(model));
            !model.links().is_empty()
                || rules.any(|rule| rule.affects_referrers() || rule.is_restricting())
                || match DeleteFollowUp::of_model(access.schema_models(), model) {
                    DeleteFollowUp::None => false,
                    // Without transactions, a tombstone must precede the follow-up writes.
                    DeleteFollowUp::WithinTransaction => is_standalone,
                    DeleteFollowUp::OnReferrers => true,
                }
        }
        Footprint::Changes(DocumentChange::Operators { update, .. }) => {
            // `overflow_references.rs` handles references in overflow arrays before the elements are spilled.
            let overlaps_link = |path: &str| {
                let mut links = model.links().iter();
                links.any(|link| {
                    overlaps_reference(link, path) && model.overflow_of(&link.link_field).is_none()
                })
            };
            path_changes(update).any(|change| change.written_paths().any(overlaps_link))
                || soft_cascade::is_affected(cx, footprint)
        }
        Footprint::Changes(_) => !model.links().is_empty(),
    }
}

/// Returns why a write needs follow-up work on references: the references that it changes and, for a delete, the references to the
/// documents.
pub(super) fn reference_reasons(access: ModelAccess<'_>, footprint: &Footprint<'_>) -> Vec<String> {
    let model = access.model;
    let is_affected = |link: &ReferenceLink| match footprint {
        Footprint::Inserts(_) | Footprint::Removes => true,
        Footprint::Changes(change) => change.update().is_none_or(|update| {
            let mut changes = path_changes(update);
            changes.any(|change| {
                change
                    .written_paths()
                    .any(|path| overlaps_reference(link, path))
            })
        }),
    };
    let is_delete = matches!(footprint, Footprint::Removes);
    let links = model.links().iter().filter(|link| is_affected(link));
    let declared = links.filter_map(|link| {
        let (field, targets) = (link.link_field.stored, link.link_field.collection);
        match link.find_inverse() {
            Some(inverse) => {
                let inverse = inverse.link_field.stored;
                Some(format!(
                    "`{field}` has the inverse `{inverse}` of {targets}"
                ))
            }
            None if is_delete => None,
            None => Some(format!("the targets of `{field}` must exist in {targets}")),
        }
    });
    let mut reasons: Vec<_> = declared.collect();
    let soft_delete = SoftDeleteChange::of_write(model, footprint);
    if soft_delete.is_some() {
        reasons.extend(cascading_rules(access).map(|rule| {
            let (referrers, field) = (rule.model.collection, rule.link.link_field.stored);
            format!("`{field}` of {referrers} has the delete rule `cascade`, which soft deletes and restores follow")
        }));
        if soft_delete == Some(SoftDeleteChange::Restore) {
            reasons.extend(cascading_links(model).map(|link| {
                let (field, targets) = (link.link_field.stored, link.link_field.collection);
                format!("the targets of `{field}` in {targets} must not be soft-deleted")
            }));
        }
    }
    if is_delete {
        let rules = rules_targeting(access);
        let rules = rules.filter(|rule| rule.affects_referrers() || rule.is_restricting());
        reasons.extend(rules.map(|rule| {
            let (referrers, field) = (rule.model.collection, rule.link.link_field.stored);
            format!(
                "`{field}` of {referrers} has the delete rule `{}`",
                rule.link.on_delete.name()
            )
        }));
    }
    reasons
}

/// Returns a path where an update may add a reference with a delete rule to a target in the scope of the model.
pub(super) fn path_of_new_reference(model: &'static Model, update: &RawDocument) -> Option<String> {
    let found = path_changes(update).find(|change| {
        let mut links = model.links().iter();
        links.any(|link| {
            let mut paths = change.written_paths();
            paths.any(|path| overlaps_reference(link, path))
                && can_add_reference(model, (link.link_field.model)(), change)
        })
    });
    found.map(|change| change.path.to_owned())
}

/// Whether a path is the path of a reference, a path inside of a reference, or a path that contains a reference.
pub(super) fn overlaps_reference(link: &ReferenceLink, path: &str) -> bool {
    link.link_field.steps_after(path).is_some()
}

/// Whether a change writes only to top-level fields with references.
pub(super) fn changes_only_references(change: &DocumentChange, model: &Model) -> bool {
    let DocumentChange::Operators { update, .. } = change else {
        return false;
    };
    path_changes(update).all(|change| {
        let mut links = model.links.iter();
        links.any(|link| root_of(change.path) == link.link_field.stored)
    })
}

/// The ids that a change removes from an overflow array of references.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RemovedIds {
    /// The given ids, as far as the array contains the ids.
    Named(Vec<RawBson>),
    /// Unknown ids: the change removes elements by a condition or a position, or replaces the array.
    Unknown,
}

/// Returns the ids that an update removes from an array of references.
pub(super) fn removed_ids(update: &RawDocument, side: &LinkField) -> RemovedIds {
    let mut removed = Vec::new();
    for change in path_changes(update) {
        if side.steps_after(change.path).is_none() {
            continue;
        }
        let ids = match change.operator {
            Operator::Push | Operator::AddToSet => continue,
            Operator::PullAll => ids_in(change.operand),
            Operator::Pull => match pulled_ids(change.operand) {
                Some(ids) => ids,
                None => return RemovedIds::Unknown,
            },
            Operator::Set
            | Operator::SetOnInsert
            | Operator::Unset
            | Operator::Rename
            | Operator::Inc
            | Operator::Mul
            | Operator::Min
            | Operator::Max
            | Operator::Bit
            | Operator::CurrentDate
            | Operator::Pop
            | Operator::Unknown => return RemovedIds::Unknown,
        };
        removed.extend(ids);
    }
    RemovedIds::Named(removed)
}

/// Returns the references of documents after a change, or `None` if only a read can tell.
pub(super) fn predict_references(
    change: &DocumentChange,
    model: &Model,
    before: &[LinkedDocument],
) -> Option<Vec<LinkedDocument>> {
    let DocumentChange::Operators { update, .. } = change else {
        return None;
    };
    let mut after = before.to_vec();
    for change in path_changes(update) {
        if change.operator == Operator::Rename {
            return None;
        }
        for (position, link) in model.links().iter().enumerate() {
            let Some(steps) = link.link_field.steps_after(change.path) else {
                continue;
            };
            // A path through an array position names one reference among several.
            if !names_complete_side(&link.link_field, change.path) {
                return None;
            }
            let effect = ReferenceEffect::of(change, steps)?;
            for document in &mut after {
                effect.apply(document.targets.get_mut(position)?);
            }
        }
    }
    Some(after)
}

/// The effect of a change on the ids of one reference.
enum ReferenceEffect {
    Replace(Vec<RawBson>),
    Add(Vec<RawBson>),
    Remove(Vec<RawBson>),
}

impl ReferenceEffect {
    /// Returns the effect of a change at an enclosing path, or `None` if only a read can tell. `steps` lead from the path to the
    /// reference.
    fn of(change: PathChange<'_>, steps: &[LinkStep]) -> Option<Self> {
        let is_reference = steps.is_empty();
        match change.operator {
            Operator::Unset => Some(Self::Replace(Vec::new())),
            Operator::Set => Some(Self::Replace(ids_below_steps(change.operand, steps))),
            Operator::Push | Operator::AddToSet => {
                let added = change.added_elements();
                let ids = || Self::Add(ids_below_steps(added.value(), steps));
                added.is_plain().then(ids)
            }
            Operator::PullAll => is_reference.then(|| Self::Remove(ids_in(change.operand))),
            Operator::Pull if is_reference => pulled_ids(change.operand).map(Self::Remove),
            Operator::Pull
            | Operator::SetOnInsert
            | Operator::Rename
            | Operator::Inc
            | Operator::Mul
            | Operator::Min
            | Operator::Max
            | Operator::Bit
            | Operator::CurrentDate
            | Operator::Pop
            | Operator::Unknown => None,
        }
    }

    fn apply(&self, targets: &mut Vec<RawBson>) {
        match self {
            Self::Replace(ids) => targets.clone_from(ids),
            Self::Add(ids) => targets.extend(ids.iter().cloned()),
            Self::Remove(ids) => targets.retain(|id| !contains_id(ids, id)),
        }
    }
}

/// Whether a path names the complete value of a side: no array precedes the end of the path.
fn names_complete_side(side: &LinkField, path: &str) -> bool {
    let names = path.split('.').count();
    let mut enclosing = side.steps.iter().take(names.saturating_sub(1));
    names <= side.steps.len() && !enclosing.any(|step| step.is_array)
}

/// Returns the ids in a value, below the remaining steps of the reference's path.
pub(super) fn ids_below_steps(value: RawBsonRef<'_>, steps: &[LinkStep]) -> Vec<RawBson> {
    let names: Vec<_> = steps.iter().map(|step| step.stored).collect();
    let mut ids = Vec::new();
    ids_in_fields(value, &names, &mut ids);
    ids
}

/// Returns the ids that a `$pull` operand removes. `None` for a condition without ids.
fn pulled_ids(operand: RawBsonRef<'_>) -> Option<Vec<RawBson>> {
    match operand {
        RawBsonRef::Document(condition) => {
            let mut condition = condition.iter().flatten();
            match (condition.next()?, condition.next()) {
                ((name, id), None) if name == "$eq" => Some(vec![id.into()]),
                ((name, ids), None) if name == "$in" => Some(ids_in(ids)),
                _ => None,
            }
        }
        id => Some(vec![id.into()]),
    }
}
