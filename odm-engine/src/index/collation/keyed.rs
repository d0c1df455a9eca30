//! The filter of a partial index with a collation.
//!
//! As on MongoDB, this filter compares by the collation. The engine replaces the strings in the document and in the filter by
//! collation keys, and then compares as usual.

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::collation::Collator;
use crate::document::append_field;
use crate::filter::Filter;
use crate::value;

/// Returns the document with collation keys in place of its strings, at any depth.
pub(in crate::index) fn keyed_document(
    document: &RawDocument,
    collator: &Collator,
) -> RawDocumentBuf {
    let mut keyed = RawDocumentBuf::new();
    for (name, value) in value::fields(document) {
        append_field(&mut keyed, name, keyed_value(value, collator));
    }
    keyed
}

/// Returns the filter with collation keys in place of the strings that it compares with.
pub(in crate::index) fn keyed_filter(filter: &RawDocument, collator: &Collator) -> RawDocumentBuf {
    let mut keyed = RawDocumentBuf::new();
    for (name, value) in value::fields(filter) {
        match value {
            RawBsonRef::Array(branches) if name.starts_with('$') => {
                let branches: RawArrayBuf = value::items(branches)
                    .filter_map(|branch| branch.as_document())
                    .map(|branch| keyed_filter(branch, collator))
                    .collect();
                append_field(&mut keyed, name, branches);
            }
            RawBsonRef::Document(conditions) if Filter::is_on_value(conditions) => {
                let mut operators = RawDocumentBuf::new();
                for (operator, operand) in value::fields(conditions) {
                    match is_comparison(operator) {
                        true => {
                            append_field(&mut operators, operator, keyed_value(operand, collator))
                        }
                        false => append_field(&mut operators, operator, operand),
                    }
                }
                append_field(&mut keyed, name, operators);
            }
            value => append_field(&mut keyed, name, keyed_value(value, collator)),
        }
    }
    keyed
}

/// Whether the filter compares with a string, or with a value that may contain strings.
pub(in crate::index) fn compares_strings(filter: &RawDocument) -> bool {
    has_compared_value(filter, &|value| {
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
    has_compared_value(filter, &|value| {
        matches!(value, RawBsonRef::RegularExpression(_))
    })
}

/// Whether `matches_operand` accepts a value that the filter compares with.
fn has_compared_value(
    filter: &RawDocument,
    matches_operand: &dyn Fn(RawBsonRef<'_>) -> bool,
) -> bool {
    value::fields(filter).any(|(name, value)| match value {
        RawBsonRef::Array(branches) if name.starts_with('$') => value::items(branches)
            .filter_map(|branch| branch.as_document())
            .any(|branch| has_compared_value(branch, matches_operand)),
        RawBsonRef::Document(conditions) if Filter::is_on_value(conditions) => {
            let mut compared = value::fields(conditions).filter(|(name, _)| is_comparison(name));
            compared.any(|(operator, operand)| match operand {
                RawBsonRef::Array(items) if operator == "$in" => {
                    value::items(items).any(matches_operand)
                }
                operand => matches_operand(operand),
            })
        }
        value => matches_operand(value),
    })
}

/// Whether an operator compares with its operand.
fn is_comparison(operator: &str) -> bool {
    matches!(operator, "$eq" | "$gt" | "$gte" | "$in" | "$lt" | "$lte")
}

fn keyed_value(value: RawBsonRef<'_>, collator: &Collator) -> RawBson {
    match value {
        RawBsonRef::String(text) => RawBson::String(keyed_text(text, collator)),
        RawBsonRef::Symbol(text) => RawBson::Symbol(keyed_text(text, collator)),
        RawBsonRef::Document(inner) => RawBson::Document(keyed_document(inner, collator)),
        RawBsonRef::Array(items) => RawBson::Array(keyed_items(items, collator)),
        other => other.into(),
    }
}

fn keyed_items(items: &RawArray, collator: &Collator) -> RawArrayBuf {
    value::items(items)
        .map(|item| keyed_value(item, collator))
        .collect()
}

/// Maps each byte of the collation key to one character, so that the text sorts like the bytes.
fn keyed_text(text: &str, collator: &Collator) -> String {
    collator.key(text).into_iter().map(char::from).collect()
}
