//! What a write does to references, as far as the write alone tells.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{
    deletion::rules,
    linked::{Linked, holds, ids_behind, ids_in},
};
use crate::{
    access::Access,
    backend::operation::Change,
    maintain::{copy, scope::can_refer, tally},
    schema::{LinkSide, LinkStep, Model, OwnLink},
};

/// What a write does to references.
pub(crate) enum Effect<'w> {
    /// New documents have some.
    Inserts(&'w [RawDocumentBuf]),
    /// They may be others.
    Changes(&'w Change),
    /// They are gone with their documents.
    Removes,
}

/// Whether something may follow from a write: only then does it cost more than without links.
pub(crate) fn is_linking(access: &Access, model: &'static Model, effect: &Effect<'_>) -> bool {
    match effect {
        Effect::Inserts(_) => {
            !model.links().is_empty() || !model.inverses.is_empty() && !access.has_transactions()
        }
        Effect::Removes => {
            let mut rules = rules(access, model);
            !model.links().is_empty()
                || rules.any(|rule| rule.acts() || rule.is_restricting())
                // Those that count it are told of its mark.
                || !access.has_transactions()
                    && (tally::is_member(access, model) || !model.overflows.is_empty())
                || copy::is_cleared(access, model)
        }
        Effect::Changes(Change::Operators { update, .. }) => {
            changes(update).any(|(operator, path, operand)| {
                // What overflows is held before it is kept apart.
                let touches = |path: &str| {
                    let mut links = model.links().iter();
                    links.any(|link| touches(link, path) && model.overflow_of(&link.side).is_none())
                };
                touches(path) || operator == "$rename" && operand.as_str().is_some_and(touches)
            })
        }
        Effect::Changes(_) => !model.links().is_empty(),
    }
}

/// Each operator of an update with the paths that it changes.
pub(super) fn changes(update: &RawDocument) -> impl Iterator<Item = (&str, &str, RawBsonRef<'_>)> {
    let operators = update.iter().flatten();
    let operators = operators.filter_map(|(name, operand)| Some((name, operand.as_document()?)));
    operators.flat_map(|(name, operand)| {
        let paths = operand.iter().flatten();
        paths.map(move |(path, value)| (name.as_str(), path.as_str(), value))
    })
}

/// A path at which an update may put a reference with a rule to a document that shares the scope of the model.
pub(crate) fn new_reference(model: &Model, update: &RawDocument) -> Option<String> {
    let mut changes = changes(update);
    let found = changes.find(|(operator, path, operand)| {
        let is_null = *operand == RawBsonRef::Null;
        let mut links = model.links().iter();
        links.any(|link| {
            let leads = touches(link, path)
                || *operator == "$rename" && operand.as_str().is_some_and(|to| touches(link, to));
            leads && can_refer(model, (link.side.model)(), operator, is_null)
        })
    });
    found.map(|(_, path, _)| path.to_owned())
}

/// Whether a path is that of a reference, inside of it, or that of what it is in.
pub(super) fn touches(link: &OwnLink, path: &str) -> bool {
    link.side.behind(path).is_some()
}

/// Whether a change writes to nothing but references at the top.
pub(super) fn is_of_links_alone(change: &Change, model: &Model) -> bool {
    let Change::Operators { update, .. } = change else {
        return false;
    };
    let mut changes = changes(update);
    changes.all(|(_, path, _)| {
        let mut links = model.links.iter();
        links.any(|link| path.split('.').next() == Some(link.side.stored))
    })
}

/// What a change takes out of references that overflow.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Taken {
    /// These, as far as they are there.
    These(Vec<RawBson>),
    /// Whatever meets a condition, or is there.
    Any,
}

/// What a change takes out of an array of references.
pub(super) fn taken(update: &RawDocument, side: &LinkSide) -> Taken {
    let mut taken = Vec::new();
    for (operator, path, operand) in changes(update) {
        if side.behind(path).is_none() {
            continue;
        }
        let ids = match operator {
            "$push" | "$addToSet" => continue,
            "$pullAll" => ids_in(operand),
            "$pull" => match pulled(operand) {
                Some(ids) => ids,
                None => return Taken::Any,
            },
            _ => return Taken::Any,
        };
        taken.extend(ids);
    }
    Taken::These(taken)
}

/// What the documents that a change is about refer to behind it; none if that has to be read.
pub(super) fn predicted(change: &Change, model: &Model, before: &[Linked]) -> Option<Vec<Linked>> {
    let Change::Operators { update, .. } = change else {
        return None;
    };
    let mut after = before.to_vec();
    for (operator, path, operand) in changes(update) {
        if operator == "$rename" {
            return None;
        }
        for (position, link) in model.links().iter().enumerate() {
            let Some(behind) = link.side.behind(path) else {
                continue;
            };
            // Behind a position it is one of several.
            if !is_whole(&link.side, path) {
                return None;
            }
            let ids = match operator {
                "$unset" => Vec::new(),
                "$set" => behind_value(operand, behind),
                "$push" | "$addToSet" => pushed(operand, behind)?,
                "$pullAll" if behind.is_empty() => ids_in(operand),
                "$pull" if behind.is_empty() => pulled(operand)?,
                _ => return None,
            };
            for document in &mut after {
                let held = document.links.get_mut(position)?;
                match operator {
                    "$set" | "$unset" => held.clone_from(&ids),
                    "$push" | "$addToSet" => held.extend(ids.iter().cloned()),
                    _ => held.retain(|id| !holds(&ids, id)),
                }
            }
        }
    }
    Some(after)
}

/// Whether a path names all that it leads to: it has no arrays on the way.
fn is_whole(side: &LinkSide, path: &str) -> bool {
    let names = path.split('.').count();
    let mut before = side.way.iter().take(names.saturating_sub(1));
    names <= side.way.len() && !before.any(|step| step.is_array)
}

/// The ids in a value, in the fields behind it.
pub(super) fn behind_value(value: RawBsonRef<'_>, behind: &[LinkStep]) -> Vec<RawBson> {
    let names: Vec<_> = behind.iter().map(|step| step.stored).collect();
    let mut found = Vec::new();
    ids_behind(value, &names, &mut found);
    found
}

/// What is put into an array, if nothing else is done to it.
fn pushed(operand: RawBsonRef<'_>, behind: &[LinkStep]) -> Option<Vec<RawBson>> {
    let modifiers = operand.as_document().filter(|operand| {
        let first = operand.iter().flatten().next();
        first.is_some_and(|(name, _)| name.as_str().starts_with('$'))
    });
    let Some(modifiers) = modifiers else {
        return Some(behind_value(operand, behind));
    };
    let mut modifiers = modifiers.iter().flatten();
    match (modifiers.next()?, modifiers.next()) {
        ((name, each), None) if name == "$each" => Some(behind_value(each, behind)),
        _ => None,
    }
}

/// What is taken out of an array, if it is said by ids.
fn pulled(operand: RawBsonRef<'_>) -> Option<Vec<RawBson>> {
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
