//! The footprint of a write on references, derived from the write alone.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{
    delete_rule::rules_targeting,
    linked_document::{LinkedDocument, contains_id, ids_in, ids_in_fields},
};
use crate::{
    access::Access,
    backend::operation::DocumentChange,
    maintain::{copy, reference_scope::can_add_reference, rollup},
    schema::{LinkField, LinkStep, Model, ReferenceLink},
};

/// The kind of a write, with the data that determines references.
pub(crate) enum Footprint<'w> {
    /// An insert of documents, which may have references.
    Inserts(&'w [RawDocumentBuf]),
    /// An update, which may change references.
    Changes(&'w DocumentChange),
    /// A delete, which removes the references of the documents.
    Removes,
}

/// Whether a write may need follow-up work on references. A write without such work costs one operation.
pub(crate) fn may_change_references(
    access: &Access,
    model: &'static Model,
    footprint: &Footprint<'_>,
) -> bool {
    match footprint {
        Footprint::Inserts(_) => {
            !model.links().is_empty() || !model.inverses.is_empty() && !access.has_transactions()
        }
        Footprint::Removes => {
            let mut rules = rules_targeting(access, model);
            !model.links().is_empty()
                || rules.any(|rule| rule.affects_referrers() || rule.is_restricting())
                // Without transactions, a tombstone must precede the updates of rollups and the delete of chunk documents.
                || !access.has_transactions()
                    && (rollup::is_child_model(access, model) || !model.overflows.is_empty())
                || copy::has_clearing_dependents(access, model)
        }
        Footprint::Changes(DocumentChange::Operators { update, .. }) => {
            changed_paths(update).any(|(operator, path, operand)| {
                // `link/overflow_references.rs` handles references in overflow arrays before the elements are spilled.
                let overlaps_link = |path: &str| {
                    let mut links = model.links().iter();
                    links.any(|link| {
                        overlaps_reference(link, path)
                            && model.overflow_of(&link.link_field).is_none()
                    })
                };
                overlaps_link(path)
                    || operator == "$rename" && operand.as_str().is_some_and(overlaps_link)
            })
        }
        Footprint::Changes(_) => !model.links().is_empty(),
    }
}

/// Returns each operator of an update with a changed path and the operand.
pub(super) fn changed_paths(
    update: &RawDocument,
) -> impl Iterator<Item = (&str, &str, RawBsonRef<'_>)> {
    let operators = update.iter().flatten();
    let operators = operators.filter_map(|(name, operand)| Some((name, operand.as_document()?)));
    operators.flat_map(|(name, operand)| {
        let paths = operand.iter().flatten();
        paths.map(move |(path, value)| (name.as_str(), path.as_str(), value))
    })
}

/// Returns a path where an update may add a reference with a delete rule to a target in the scope of the model.
pub(crate) fn path_of_new_reference(model: &Model, update: &RawDocument) -> Option<String> {
    let mut changes = changed_paths(update);
    let found = changes.find(|(operator, path, operand)| {
        let is_null = *operand == RawBsonRef::Null;
        let mut links = model.links().iter();
        links.any(|link| {
            let overlaps = overlaps_reference(link, path)
                || *operator == "$rename"
                    && operand
                        .as_str()
                        .is_some_and(|to| overlaps_reference(link, to));
            overlaps && can_add_reference(model, (link.link_field.model)(), operator, is_null)
        })
    });
    found.map(|(_, path, _)| path.to_owned())
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
    let mut changes = changed_paths(update);
    changes.all(|(_, path, _)| {
        let mut links = model.links.iter();
        links.any(|link| path.split('.').next() == Some(link.link_field.stored))
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
    for (operator, path, operand) in changed_paths(update) {
        if side.steps_after(path).is_none() {
            continue;
        }
        let ids = match operator {
            "$push" | "$addToSet" => continue,
            "$pullAll" => ids_in(operand),
            "$pull" => match pulled_ids(operand) {
                Some(ids) => ids,
                None => return RemovedIds::Unknown,
            },
            _ => return RemovedIds::Unknown,
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
    for (operator, path, operand) in changed_paths(update) {
        if operator == "$rename" {
            return None;
        }
        for (position, link) in model.links().iter().enumerate() {
            let Some(steps) = link.link_field.steps_after(path) else {
                continue;
            };
            // A path through an array position names one reference among several.
            if !names_complete_side(&link.link_field, path) {
                return None;
            }
            let ids = match operator {
                "$unset" => Vec::new(),
                "$set" => ids_below_steps(operand, steps),
                "$push" | "$addToSet" => pushed_ids(operand, steps)?,
                "$pullAll" if steps.is_empty() => ids_in(operand),
                "$pull" if steps.is_empty() => pulled_ids(operand)?,
                _ => return None,
            };
            for document in &mut after {
                let targets = document.targets.get_mut(position)?;
                match operator {
                    "$set" | "$unset" => targets.clone_from(&ids),
                    "$push" | "$addToSet" => targets.extend(ids.iter().cloned()),
                    _ => targets.retain(|id| !contains_id(&ids, id)),
                }
            }
        }
    }
    Some(after)
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

/// Returns the ids that an operand adds to an array. `None` if a modifier such as `$slice` or `$position` is present.
fn pushed_ids(operand: RawBsonRef<'_>, steps: &[LinkStep]) -> Option<Vec<RawBson>> {
    let modifiers = operand.as_document().filter(|operand| {
        let first_field = operand.iter().flatten().next();
        first_field.is_some_and(|(name, _)| name.as_str().starts_with('$'))
    });
    let Some(modifiers) = modifiers else {
        return Some(ids_below_steps(operand, steps));
    };
    let mut modifiers = modifiers.iter().flatten();
    match (modifiers.next()?, modifiers.next()) {
        ((name, each), None) if name == "$each" => Some(ids_below_steps(each, steps)),
        _ => None,
    }
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
