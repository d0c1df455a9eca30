//! From a filter document to an [`Expression`].

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};

use super::compare::{self, Comparison};
use super::{Expression, Predicate, Test};
use super::{
    all, bits, elem_match, exists, expr, logical, membership, modulo, not, regex, size, type_of,
};
use crate::expression::Environment;
use crate::path::Path;
use crate::pattern::Regex;
use crate::{Error, Result, value};

/// How an operator inside a field's condition is read.
type FieldParser = fn(&Operand<'_>) -> Result<Predicate>;

/// How an operator beside the fields is read.
type DocumentParser = fn(&Condition<'_>) -> Result<Expression>;

/// The operators on a field, by name.
const FIELD_OPERATORS: &[(&str, FieldParser)] = &[
    ("$all", all::parse),
    ("$bitsAllClear", bits::parse_all_clear),
    ("$bitsAllSet", bits::parse_all_set),
    ("$bitsAnyClear", bits::parse_any_clear),
    ("$bitsAnySet", bits::parse_any_set),
    ("$elemMatch", elem_match::parse),
    ("$eq", compare::parse_eq),
    ("$exists", exists::parse),
    ("$gt", compare::parse_gt),
    ("$gte", compare::parse_gte),
    ("$in", membership::parse_in),
    ("$lt", compare::parse_lt),
    ("$lte", compare::parse_lte),
    ("$mod", modulo::parse),
    ("$ne", compare::parse_ne),
    ("$nin", membership::parse_nin),
    ("$not", not::parse),
    ("$options", regex::parse_options),
    ("$regex", regex::parse),
    ("$size", size::parse),
    ("$type", type_of::parse),
];

/// The operators beside the fields, by name.
const DOCUMENT_OPERATORS: &[(&str, DocumentParser)] = &[
    ("$and", logical::parse_and),
    ("$comment", logical::parse_comment),
    ("$expr", expr::parse),
    ("$nor", logical::parse_nor),
    ("$or", logical::parse_or),
];

/// What MongoDB has and the engine has not, sorted.
const NOT_SUPPORTED: &[&str] = &[
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

/// What an operator on a field is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand<'a> {
    /// The name of the operator, as `$gte`.
    pub(super) operator: &'a str,
    /// The path of the field. Empty inside `$elemMatch`.
    pub(super) field: &'a str,
    pub(super) value: RawBsonRef<'a>,
    /// The document that the operator is in.
    pub(super) siblings: &'a RawDocument,
}

/// What an operator beside the fields is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition<'a> {
    /// The name of the operator, as `$or`.
    pub(super) operator: &'a str,
    pub(super) value: RawBsonRef<'a>,
    pub(super) place: Place<'a>,
}

/// Where a filter stands, which decides whether `$expr` may be in it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// It is that of a command, with what expressions see.
    Command(&'a Arc<Environment>),
    /// It is on whole documents elsewhere.
    Elsewhere,
    /// It is within a condition on an element.
    Element,
}

/// Reads conditions on a document.
pub(super) fn document(filter: &RawDocument, place: Place<'_>) -> Result<Expression> {
    let mut all = Vec::new();
    for (name, value) in value::fields(filter) {
        if name.starts_with('$') && !is_reference_field(name) {
            let parse = operator(DOCUMENT_OPERATORS, name, || {
                format!(
                    "unknown top level operator: {name}; fields whose names start with '$' cannot \
                     be queried, and conditions on a field go inside of it"
                )
            })?;
            all.push(parse(&Condition {
                operator: name,
                value,
                place,
            })?);
            continue;
        }
        match condition(name, value)?.at(&Path::new(name)) {
            Expression::And(inner) => all.extend(inner),
            expression => all.push(expression),
        }
    }
    Ok(match all.len() {
        1 => all.remove(0),
        _ => Expression::And(all),
    })
}

/// Reads conditions such as `{ $gte: 5, $lt: 9 }`.
pub(super) fn predicate(field: &str, conditions: &RawDocument) -> Result<Predicate> {
    let mut all = Vec::new();
    for (name, value) in value::fields(conditions) {
        let parse = operator(FIELD_OPERATORS, name, || {
            format!("unknown operator: {name}")
        })?;
        all.push(parse(&Operand {
            operator: name,
            field,
            value,
            siblings: conditions,
        })?);
    }
    Ok(match all.len() {
        1 => all.remove(0),
        _ => Predicate::All(all),
    })
}

/// Whether a document holds conditions rather than being a value to compare with.
pub(super) fn is_conditions(document: &RawDocument) -> bool {
    let first = value::fields(document).next();
    first.is_some_and(|(name, _)| name.starts_with('$')) && !is_reference(document)
}

/// Whether a document holds conditions on a value, rather than on the fields of a document.
pub(super) fn is_on_value(conditions: &RawDocument) -> bool {
    let first = value::fields(conditions).next().map(|(name, _)| name);
    is_conditions(conditions) && !first.is_some_and(is_document_operator)
}

fn is_document_operator(name: &str) -> bool {
    DOCUMENT_OPERATORS.iter().any(|(known, _)| *known == name)
        || matches!(name, "$jsonSchema" | "$sampleRate" | "$text" | "$where")
}

/// Reads what a field is set against: a value, a pattern or conditions.
fn condition(name: &str, value: RawBsonRef<'_>) -> Result<Predicate> {
    match value {
        RawBsonRef::Document(conditions) if is_conditions(conditions) => {
            predicate(name, conditions)
        }
        RawBsonRef::RegularExpression(literal) => {
            Ok(Predicate::Test(Test::Regex(Regex::from_literal(literal)?)))
        }
        value => Comparison::equality(value),
    }
}

fn operator<P: Copy>(
    registry: &[(&str, P)],
    name: &str,
    unknown: impl FnOnce() -> String,
) -> Result<P> {
    match registry.binary_search_by_key(&name, |(known, _)| known) {
        Ok(at) => registry.get(at).map(|(_, parse)| *parse),
        Err(_) => None,
    }
    .ok_or_else(|| {
        if NOT_SUPPORTED.binary_search(&name).is_ok() {
            Error::not_supported(format!("the filter operator {name} is not supported"))
        } else {
            Error::unknown_operator(2, unknown())
        }
    })
}

/// Whether a document is a reference of the old kind, `{ $ref, $id }`: a value, not conditions.
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
        assert!(NOT_SUPPORTED.is_sorted());
    }

    #[test]
    fn the_examples_hold() {
        let operators = FIELD_OPERATORS.iter().map(|(name, _)| *name);
        let operators = operators.chain(DOCUMENT_OPERATORS.iter().map(|(name, _)| *name));
        examples::check("filter", operators, |example| {
            let filter = Filter::parse_in(&example.asked, &Arc::default()).unwrap();
            let documents = example.documents.iter();
            let found = documents.filter(|document| filter.matches(document).unwrap());
            found.cloned().map(RawBson::Document).collect()
        });
    }
}
