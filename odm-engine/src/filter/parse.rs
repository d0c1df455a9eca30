//! Parsing of a filter document into a [`FilterExpression`].

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::compare::{self, Comparison};
use super::{FilterExpression, ValuePredicate, ValueTest};
use super::{
    all, bits, elem_match, exists, expr, logical, membership, modulo, not, regex, size, type_of,
};
use crate::collation::ValueOrder;
use crate::expression::Environment;
use crate::path::Path;
use crate::pattern::Regex;
use crate::{Error, Result, value};

/// The parser of an operator on a field.
type FieldOperatorParser = fn(&FieldOperand<'_>) -> Result<ValuePredicate>;

/// The parser of an operator at the top level of a filter.
type DocumentOperatorParser = fn(&DocumentOperand<'_>) -> Result<FilterExpression>;

/// The operators on a field, sorted by name.
const FIELD_OPERATORS: &[(&str, FieldOperatorParser)] = &[
    ("$all", all::parse_all),
    ("$bitsAllClear", bits::parse_all_clear),
    ("$bitsAllSet", bits::parse_all_set),
    ("$bitsAnyClear", bits::parse_any_clear),
    ("$bitsAnySet", bits::parse_any_set),
    ("$elemMatch", elem_match::parse_elem_match),
    ("$eq", compare::parse_eq),
    ("$exists", exists::parse_exists),
    ("$gt", compare::parse_gt),
    ("$gte", compare::parse_gte),
    ("$in", membership::parse_in),
    ("$lt", compare::parse_lt),
    ("$lte", compare::parse_lte),
    ("$mod", modulo::parse_mod),
    ("$ne", compare::parse_ne),
    ("$nin", membership::parse_nin),
    ("$not", not::parse_not),
    ("$options", regex::parse_options),
    ("$regex", regex::parse_regex),
    ("$size", size::parse_size),
    ("$type", type_of::parse_type),
];

/// The operators at the top level of a filter, sorted by name.
const DOCUMENT_OPERATORS: &[(&str, DocumentOperatorParser)] = &[
    ("$and", logical::parse_and),
    ("$comment", logical::parse_comment),
    ("$expr", expr::parse_expr),
    ("$nor", logical::parse_nor),
    ("$or", logical::parse_or),
];

/// Filter operators of MongoDB that the engine does not support, sorted.
const UNSUPPORTED_OPERATORS: &[&str] = &[
    "$alwaysFalse",
    "$alwaysTrue",
    "$geoIntersects",
    "$geoNear",
    "$geoWithin",
    "$jsonSchema",
    "$near",
    "$nearSphere",
    "$sampleRate",
    "$text",
    "$where",
    "$within",
];

/// The operand of an operator on a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldOperand<'a> {
    /// The name of the operator, such as `$gte`.
    pub(super) operator: &'a str,
    /// The path of the field. Empty inside `$elemMatch`.
    pub(super) field: &'a str,
    pub(super) value: RawBsonRef<'a>,
    /// The document that contains the operator.
    pub(super) siblings: &'a RawDocument,
    pub(super) order: &'a ValueOrder,
}

/// The operand of an operator at the top level.
#[derive(Debug, Clone, Copy)]
pub(super) struct DocumentOperand<'a> {
    /// The name of the operator, such as `$or`.
    pub(super) operator: &'a str,
    pub(super) value: RawBsonRef<'a>,
    pub(super) place: FilterContext<'a>,
}

/// The place of a filter, which decides whether `$expr` is allowed.
#[derive(Debug, Clone, Copy)]
pub(super) enum FilterContext<'a> {
    /// The filter of a command, with the environment of expressions.
    Command(&'a Arc<Environment>),
    /// Another filter on whole documents.
    Elsewhere(&'a ValueOrder),
    /// A condition on an array element.
    Element(&'a ValueOrder),
}

impl<'a> FilterContext<'a> {
    fn order(self) -> &'a ValueOrder {
        match self {
            FilterContext::Command(environment) => environment.order(),
            FilterContext::Elsewhere(order) | FilterContext::Element(order) => order,
        }
    }
}

/// Parses conditions on a document.
pub(super) fn parse_document(
    filter: &RawDocument,
    place: FilterContext<'_>,
) -> Result<FilterExpression> {
    let mut all = Vec::new();
    for (name, value) in value::fields(filter) {
        if name.starts_with('$') && !is_reference_field(name) {
            let parse = find_operator(DOCUMENT_OPERATORS, name, || {
                format!(
                    "unknown top level operator: {name}; fields whose names start with '$' cannot \
                     be queried, and conditions on a field belong inside of the field"
                )
            })?;
            all.push(parse(&DocumentOperand {
                operator: name,
                value,
                place,
            })?);
            continue;
        }
        let predicate = match is_reference_field(name) {
            // As on MongoDB, a document is a value here, also a document of operators.
            true => Comparison::equality_predicate(value, place.order())?,
            false => parse_field_value(name, value, place.order())?,
        };
        match predicate.at_path(&Path::new(name)) {
            FilterExpression::And(inner) => all.extend(inner),
            expression => all.push(expression),
        }
    }
    Ok(match all.len() {
        1 => all.remove(0),
        _ => FilterExpression::And(all),
    })
}

/// Parses conditions on a value, such as `{ $gte: 5, $lt: 9 }`.
pub(super) fn parse_predicate(
    field: &str,
    conditions: &RawDocument,
    order: &ValueOrder,
) -> Result<ValuePredicate> {
    let mut all = Vec::new();
    for (name, value) in value::fields(conditions) {
        let parse = find_operator(FIELD_OPERATORS, name, || {
            format!("unknown operator: {name}")
        })?;
        all.push(parse(&FieldOperand {
            operator: name,
            field,
            value,
            siblings: conditions,
            order,
        })?);
    }
    Ok(match all.len() {
        1 => all.remove(0),
        _ => ValuePredicate::All(all),
    })
}

/// Returns whether a document holds operators, instead of being a value for an equality.
pub(super) fn has_operators(document: &RawDocument) -> bool {
    let first = value::fields(document).next();
    first.is_some_and(|(name, _)| name.starts_with('$')) && !is_reference(document)
}

/// Returns whether the conditions apply to a value, instead of to the fields of a document.
pub(super) fn is_on_value(conditions: &RawDocument) -> bool {
    let first = value::fields(conditions).next().map(|(name, _)| name);
    // As on MongoDB, a part of a DBRef is enough: `{ $id: 7 }` is a condition on the field `$id`.
    let is_part_of_reference = value::fields(conditions).any(|(name, _)| is_reference_field(name));
    has_operators(conditions) && !is_part_of_reference && !first.is_some_and(is_document_operator)
}

fn is_document_operator(name: &str) -> bool {
    DOCUMENT_OPERATORS.iter().any(|(known, _)| *known == name)
        || matches!(name, "$jsonSchema" | "$sampleRate" | "$text" | "$where")
}

/// Parses the right side of a field: a value, a pattern or conditions.
fn parse_field_value(
    name: &str,
    value: RawBsonRef<'_>,
    order: &ValueOrder,
) -> Result<ValuePredicate> {
    match value {
        RawBsonRef::Document(conditions) if has_operators(conditions) => {
            parse_predicate(name, conditions, order)
        }
        RawBsonRef::RegularExpression(literal) => Ok(ValuePredicate::Test(ValueTest::Regex(
            Regex::from_literal(literal)?,
        ))),
        value => Comparison::equality_predicate(value, order),
    }
}

fn find_operator<P: Copy>(
    registry: &[(&str, P)],
    name: &str,
    unknown: impl FnOnce() -> String,
) -> Result<P> {
    match registry.binary_search_by_key(&name, |(known, _)| known) {
        Ok(at) => registry.get(at).map(|(_, parse)| *parse),
        Err(_) => None,
    }
    .ok_or_else(|| {
        if UNSUPPORTED_OPERATORS.binary_search(&name).is_ok() {
            Error::not_supported(format!("the filter operator {name} is not supported"))
        } else {
            Error::unknown_operator(2, unknown())
        }
    })
}

/// Returns whether a document is a DBRef, `{ $ref, $id }`: a value, not conditions.
fn is_reference(document: &RawDocument) -> bool {
    value::get(document, "$ref").is_some() && value::get(document, "$id").is_some()
}

fn is_reference_field(name: &str) -> bool {
    matches!(name, "$ref" | "$id" | "$db")
}

#[cfg(test)]
mod tests {
    use bson::RawBson;

    use super::*;
    use crate::examples;
    use crate::filter::Filter;

    #[test]
    fn registries_are_sorted() {
        assert!(FIELD_OPERATORS.is_sorted_by_key(|(name, _)| name));
        assert!(DOCUMENT_OPERATORS.is_sorted_by_key(|(name, _)| name));
        assert!(UNSUPPORTED_OPERATORS.is_sorted());
    }

    #[test]
    fn the_examples_hold() {
        let operators = FIELD_OPERATORS.iter().map(|(name, _)| *name);
        let operators = operators.chain(DOCUMENT_OPERATORS.iter().map(|(name, _)| *name));
        examples::check_examples("filter", operators, |example| {
            let filter = Filter::parse_for_command(&example.request, &Arc::default()).unwrap();
            let documents = example.documents.iter();
            let matches = documents.filter(|document| filter.matches(document).unwrap());
            matches.cloned().map(RawBson::Document).collect()
        });
    }
}
