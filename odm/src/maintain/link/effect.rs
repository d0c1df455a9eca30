//! What a write does to references, as far as the write alone tells.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::{
    deletion::rules,
    linked::{Linked, holds, ids_in},
};
use crate::{
    access::Access,
    backend::operation::Change,
    schema::{Model, OwnLink},
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
            !model.links.is_empty() || !model.inverses.is_empty() && !access.has_transactions()
        }
        Effect::Removes => {
            let mut rules = rules(access, model);
            !model.links.is_empty() || rules.any(|rule| rule.acts() || rule.is_restricting())
        }
        Effect::Changes(Change::Operators { update, .. }) => {
            changes(update).any(|(operator, path, operand)| {
                let touches = |path: &str| {
                    let mut links = model.links.iter();
                    links.any(|link| is_of(link, path))
                };
                touches(path) || operator == "$rename" && operand.as_str().is_some_and(touches)
            })
        }
        Effect::Changes(_) => !model.links.is_empty(),
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

/// Whether a path is that of a reference, or inside of it.
pub(super) fn is_of(link: &OwnLink, path: &str) -> bool {
    path.split('.').next() == Some(link.side.stored)
}

/// Whether a change writes to nothing but references.
pub(super) fn is_of_links_alone(change: &Change, model: &Model) -> bool {
    let Change::Operators { update, .. } = change else {
        return false;
    };
    changes(update).all(|(_, path, _)| model.links.iter().any(|link| is_of(link, path)))
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
        let Some(position) = model.links.iter().position(|link| is_of(link, path)) else {
            continue;
        };
        if model.links.get(position)?.side.stored != path {
            return None;
        }
        let ids = match operator {
            "$unset" => Vec::new(),
            "$set" | "$pullAll" => ids_in(operand),
            "$push" | "$addToSet" => pushed(operand)?,
            "$pull" => pulled(operand)?,
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
    Some(after)
}

/// What is put into an array, if nothing else is done to it.
fn pushed(operand: RawBsonRef<'_>) -> Option<Vec<RawBson>> {
    match operand {
        RawBsonRef::Document(modifiers) => {
            let mut modifiers = modifiers.iter().flatten();
            match (modifiers.next()?, modifiers.next()) {
                ((name, each), None) if name == "$each" => Some(ids_in(each)),
                _ => None,
            }
        }
        id => Some(vec![id.into()]),
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
