//! The filter of a partial index with a collation.
//!
//! MongoDB compares by the collation there, too. Here, a document and the filter both have keys in the place of strings, and
//! are then compared as ever.

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Collator;
use crate::document::append;
use crate::filter::Filter;
use crate::value;

/// The document with collation keys in the place of its strings, at any depth.
pub(in crate::index) fn keyed(document: &RawDocument, collator: &Collator) -> RawDocumentBuf {
    let mut keyed = RawDocumentBuf::new();
    for (name, value) in value::fields(document) {
        append(&mut keyed, name, keyed_value(value, collator));
    }
    keyed
}

/// The filter with collation keys in the place of the strings that it compares with.
pub(in crate::index) fn keyed_filter(filter: &RawDocument, collator: &Collator) -> RawDocumentBuf {
    let mut keyed = RawDocumentBuf::new();
    for (name, value) in value::fields(filter) {
        match value {
            RawBsonRef::Array(branches) if name.starts_with('$') => {
                let branches: RawArrayBuf = value::items(branches)
                    .filter_map(|branch| branch.as_document())
                    .map(|branch| keyed_filter(branch, collator))
                    .collect();
                append(&mut keyed, name, branches);
            }
            RawBsonRef::Document(conditions) if Filter::is_on_value(conditions) => {
                let mut operators = RawDocumentBuf::new();
                for (operator, operand) in value::fields(conditions) {
                    match compares(operator) {
                        true => append(&mut operators, operator, keyed_value(operand, collator)),
                        false => append(&mut operators, operator, operand),
                    }
                }
                append(&mut keyed, name, operators);
            }
            value => append(&mut keyed, name, keyed_value(value, collator)),
        }
    }
    keyed
}

/// Whether the filter compares with a string, or with what may have strings in it.
pub(in crate::index) fn compares_strings(filter: &RawDocument) -> bool {
    has_operand(filter, &|value| {
        matches!(
            value,
            RawBsonRef::String(_)
                | RawBsonRef::Symbol(_)
                | RawBsonRef::Document(_)
                | RawBsonRef::Array(_)
        )
    })
}

/// Whether the filter has a regular expression.
pub(super) fn has_patterns(filter: &RawDocument) -> bool {
    has_operand(filter, &|value| {
        matches!(value, RawBsonRef::RegularExpression(_))
    })
}

/// Whether anything that the filter compares with is such a value.
fn has_operand(filter: &RawDocument, is_such: &dyn Fn(RawBsonRef<'_>) -> bool) -> bool {
    value::fields(filter).any(|(name, value)| match value {
        RawBsonRef::Array(branches) if name.starts_with('$') => value::items(branches)
            .filter_map(|branch| branch.as_document())
            .any(|branch| has_operand(branch, is_such)),
        RawBsonRef::Document(conditions) if Filter::is_on_value(conditions) => {
            let mut compared = value::fields(conditions).filter(|(name, _)| compares(name));
            compared.any(|(operator, operand)| match operand {
                RawBsonRef::Array(items) if operator == "$in" => value::items(items).any(is_such),
                operand => is_such(operand),
            })
        }
        value => is_such(value),
    })
}

/// Whether an operator compares with its operand.
fn compares(operator: &str) -> bool {
    matches!(operator, "$eq" | "$gt" | "$gte" | "$in" | "$lt" | "$lte")
}

fn keyed_value(value: RawBsonRef<'_>, collator: &Collator) -> RawBson {
    match value {
        RawBsonRef::String(text) => RawBson::String(keyed_text(text, collator)),
        RawBsonRef::Symbol(text) => RawBson::Symbol(keyed_text(text, collator)),
        RawBsonRef::Document(inner) => RawBson::Document(keyed(inner, collator)),
        RawBsonRef::Array(items) => RawBson::Array(keyed_items(items, collator)),
        other => other.into(),
    }
}

fn keyed_items(items: &RawArray, collator: &Collator) -> RawArrayBuf {
    value::items(items)
        .map(|item| keyed_value(item, collator))
        .collect()
}

/// A character for each byte of the key, so that they sort as the bytes do.
fn keyed_text(text: &str, collator: &Collator) -> String {
    collator.key(text).into_iter().map(char::from).collect()
}
