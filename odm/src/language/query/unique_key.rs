//! The fields of a unique index, by which an upsert finds the existing document.

use bson::{RawBson, RawBsonRef, RawDocument};

use super::{FilterNode, position::value_at};
use crate::{
    Error, ErrorKind, Result,
    backend::operation::Index,
    language::{
        aggregate::SingleValuePlace,
        field::{Path, SameScope},
    },
    metadata::{caseless_path, text_of_caseless},
    model::caseless::without_case,
    schema::Model,
};

/// The fields of a unique index: a field with a single value, or a tuple of such fields.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the unique key of `{T}`",
    label = "expected a field with a single value, or a tuple of up to four",
    note = "name the fields of a unique index: `db.upsert_by(|u| u.mail(), …)`, `db.upsert_by(|s| (s.shop(), s.sku()), …)`"
)]
pub trait UniqueKey<T> {
    /// Returns the paths of the fields.
    #[doc(hidden)]
    fn key_paths(&self) -> Vec<Path>;
}

#[diagnostic::do_not_recommend]
impl<T, P: SingleValuePlace<Scope: SameScope<T>>> UniqueKey<T> for P {
    fn key_paths(&self) -> Vec<Path> {
        vec![self.path()]
    }
}

macro_rules! tuples {
    ($($name:ident $place:ident),+) => {
        #[diagnostic::do_not_recommend]
        impl<T, $($place: SingleValuePlace<Scope: SameScope<T>>),+> UniqueKey<T> for ($($place,)+) {
            fn key_paths(&self) -> Vec<Path> {
                let ($($name,)+) = self;
                vec![$($name.path()),+]
            }
        }
    };
}
tuples!(a A, b B);
tuples!(a A, b B, c C);
tuples!(a A, b B, c C, d D);

/// The condition that a document has the values of a unique index.
pub(crate) struct UniqueKeyCondition {
    pub(crate) values: FilterNode,
    /// Whether the index has hidden documents: of another scope, or soft-deleted.
    pub(crate) covers_hidden_documents: bool,
    /// Whether documents of different scopes can have the values.
    pub(crate) is_within_scope: bool,
}

/// Returns the condition that a document has the values of `document` at the paths of a unique index.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if no unique index has exactly the paths, and for a key without a value.
/// [`Unsupported`](ErrorKind::Unsupported) for a number that the insert assigns.
pub(crate) fn unique_key_condition(
    model: &Model,
    indexes: &[Index],
    paths: &[Path],
    document: &RawDocument,
) -> Result<UniqueKeyCondition> {
    let names: Vec<_> = paths.iter().map(Path::dotted).collect::<Result<_>>()?;
    let mut numbers = model.sequences.iter().map(|sequence| sequence.stored);
    if let Some(number) = numbers.find(|number| names.iter().any(|name| name == number)) {
        let message = "the insert assigns this number, so the key of the document is unknown before the insert: use `insert`, or `update` an existing document";
        return Err(Error::new(ErrorKind::Unsupported, message).with_path(number));
    }
    let unique: Vec<_> = indexes
        .iter()
        .filter(|index| is_unique_over(model, index, &names))
        .collect();
    if names != ["_id"] && unique.is_empty() {
        let message = format!(
            "no unique index has exactly the fields `{}`, so several documents could have the values: declare the index, by \
             `#[index(unique)]` or `index(…; unique)`",
            names.join("`, `")
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    // An index with the texts as they are is unique too, so an index without case is the second choice.
    let has_exact_texts = |index: &&Index| {
        names
            .iter()
            .all(|name| index.keys.iter().any(|(path, _)| path == name))
    };
    let ignores_case = !unique.is_empty() && !unique.iter().any(has_exact_texts);
    let is_caseless = |name: &str| {
        let mut keys = unique.iter().flat_map(|index| &index.keys);
        ignores_case && keys.any(|(path, _)| *path == caseless_path(name))
    };
    let mut condition = FilterNode::All;
    for (path, name) in paths.iter().zip(&names) {
        let value = value_at(document, name).filter(|value| *value != RawBsonRef::Null);
        let Some(value) = value.map(RawBson::from) else {
            let message = "the document to insert has no value for this field of the unique key, and several documents can lack the value: \
                           set the field, or use `insert`";
            return Err(Error::new(ErrorKind::Invalid, message).with_path(*name));
        };
        let test = match (path.caseless_place(), value) {
            (Some(place), RawBson::String(text)) if is_caseless(name) => {
                FilterNode::Test(place, "$eq", without_case(&text).into())
            }
            (_, value) => FilterNode::Test(path.clone(), "$eq", value),
        };
        condition = condition.and(test);
    }
    let scope = model.scope.map(|scope| scope.stored);
    let is_in_key = |path: &str| names.contains(&path) || Some(path) == scope;
    let has_scope = |index: &&Index| index.keys.iter().any(|(path, _)| Some(&**path) == scope);
    Ok(UniqueKeyCondition {
        values: condition,
        // Within a scope, only a soft-deleted document is hidden.
        covers_hidden_documents: names == ["_id"]
            || unique.iter().any(|index| {
                is_conditional_on(index, is_in_key)
                    && (model.soft_delete.is_some() || !has_scope(index))
            }),
        is_within_scope: names != ["_id"] && unique.iter().all(has_scope),
    })
}

/// Returns whether the condition of a partial index concerns only fields that pass the test. An index of all documents passes.
fn is_conditional_on(index: &Index, is_allowed: impl Fn(&str) -> bool) -> bool {
    index.partial.as_deref().is_none_or(|partial| {
        let mut conditions = partial.iter();
        conditions.all(|condition| {
            condition.is_ok_and(|(path, _)| is_allowed(text_of_caseless(path.as_str())))
        })
    })
}

/// Returns whether at most one visible document can have the values. A partial index counts if its condition concerns only the
/// values of the key, or hides the soft-deleted documents.
fn is_unique_over(model: &Model, index: &Index, names: &[&str]) -> bool {
    let is_in_key = |path: &str| names.contains(&path);
    let scope = model.scope.map(|scope| scope.stored);
    let tag = model.tag.map(|(field, _)| field);
    let is_of_model = |path: &str| [scope, model.soft_delete, tag].contains(&Some(path));
    // An index with `ignore_case` has the caseless form of a text.
    let paths = || index.keys.iter().map(|(path, _)| text_of_caseless(path));
    index.unique
        && index.hashed.is_none()
        && names.iter().all(|name| paths().any(|path| path == *name))
        && paths().all(|path| is_in_key(path) || Some(path) == scope)
        && is_conditional_on(index, |path| is_in_key(path) || is_of_model(path))
}
