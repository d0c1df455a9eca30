//! Validation and comparison of the filters of partial indexes.

use bson::{RawBsonRef, RawDocument};

use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::key::value::encode_value;
use crate::value;

/// Refuses the operators that MongoDB refuses in a partial filter. For these operators it is hard to tell whether a query implies
/// the filter.
pub(super) fn check_filter(filter: &RawDocument) -> Result<()> {
    ensure_conditions_only(filter)?;
    check_supported(filter)
}

/// Refuses top-level operators that are not conditions on a field, with MongoDB's specific error codes.
///
/// This check must come before the filter parser, which does not support some of these operators.
pub(super) fn ensure_conditions_only(filter: &RawDocument) -> Result<()> {
    for element in filter.iter_elements() {
        let element = element?;
        let code = match (element.key().as_str(), element.value()?) {
            ("$and" | "$or" | "$nor", RawBsonRef::Array(branches)) => {
                for branch in branches {
                    branch?
                        .as_document()
                        .map_or(Ok(()), ensure_conditions_only)?;
                }
                continue;
            }
            ("$expr" | "$jsonSchema", _) => code::QUERY_FEATURE_NOT_ALLOWED,
            ("$text" | "$where", _) => code::BAD_VALUE,
            ("$alwaysFalse" | "$alwaysTrue" | "$sampleRate", _) => code::CANNOT_CREATE_INDEX,
            _ => continue,
        };
        let name = element.key().as_str();
        let message = format!("{name} is not allowed in the filter of a partial index");
        return Err(Error::with_server_code(code, message));
    }
    Ok(())
}

fn check_supported(filter: &RawDocument) -> Result<()> {
    for element in filter.iter_elements() {
        let element = element?;
        match (element.key().as_str(), element.value()?) {
            ("$and" | "$or", RawBsonRef::Array(branches)) => {
                for branch in branches {
                    branch?.as_document().map_or(Ok(()), check_supported)?;
                }
            }
            ("$comment", _) => {}
            (name, _) if name.starts_with('$') => return Err(operator_error(name)),
            (_, RawBsonRef::RegularExpression(_)) => return Err(operator_error("$regex")),
            (_, RawBsonRef::Document(conditions)) => check_conditions(conditions)?,
            _ => {}
        }
    }
    Ok(())
}

/// Whether two filters are equivalent. Ignores the order of conditions within conjunctions and disjunctions, and the types of
/// numbers.
pub(super) fn is_equivalent(a: &RawDocument, b: &RawDocument) -> bool {
    match (normalized_clauses(a), normalized_clauses(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a.as_bytes() == b.as_bytes(),
    }
}

/// An encoded condition. Equal conditions have equal bytes.
type EncodedClause = Vec<u8>;

/// Returns the conditions of a conjunction, without duplicates and in a fixed order.
fn normalized_clauses(filter: &RawDocument) -> Result<Vec<EncodedClause>> {
    let mut clauses = Vec::new();
    collect_clauses(filter, &mut clauses)?;
    clauses.sort_unstable();
    clauses.dedup();
    Ok(clauses)
}

fn collect_clauses(filter: &RawDocument, clauses: &mut Vec<EncodedClause>) -> Result<()> {
    for element in filter.iter_elements() {
        let element = element?;
        match (element.key().as_str(), element.value()?) {
            ("$and", RawBsonRef::Array(conjuncts)) => {
                for branch in conjuncts {
                    branch?
                        .as_document()
                        .map_or(Ok(()), |branch| collect_clauses(branch, clauses))?;
                }
            }
            ("$or", RawBsonRef::Array(disjuncts)) => {
                let mut branches = Vec::new();
                for branch in disjuncts {
                    let branch = branch?.as_document().map(normalized_clauses).transpose()?;
                    branches.push(branch.unwrap_or_default());
                }
                branches.sort_unstable();
                branches.dedup();
                match branches.as_mut_slice() {
                    [only] => clauses.append(only),
                    branches => {
                        let branches: Vec<_> = branches
                            .iter()
                            .map(|clauses| join_with_lengths("$and", clauses))
                            .collect();
                        clauses.push(join_with_lengths("$or", &branches));
                    }
                }
            }
            ("$comment", _) => {}
            (path, RawBsonRef::Document(conditions)) if Filter::is_on_value(conditions) => {
                for (operator, operand) in value::fields(conditions) {
                    match operand {
                        RawBsonRef::Array(values) if operator == "$all" => {
                            for value in value::items(values) {
                                clauses.push(encode_clause(path, "$eq", value)?);
                            }
                        }
                        operand => clauses.push(encode_clause(path, operator, operand)?),
                    }
                }
            }
            (path, value) => clauses.push(encode_clause(path, "$eq", value)?),
        }
    }
    Ok(())
}

fn encode_clause(path: &str, operator: &str, operand: RawBsonRef<'_>) -> Result<EncodedClause> {
    let mut encoded = Vec::new();
    encode_value(operand, Direction::Ascending, &mut encoded)?;
    Ok(join_with_lengths(
        path,
        &[join_with_lengths(operator, &[encoded])],
    ))
}

/// Joins texts with their lengths, so that different inputs have different results.
fn join_with_lengths(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut joined = Vec::new();
    for part in std::iter::once(name.as_bytes()).chain(parts.iter().map(Vec::as_slice)) {
        joined.extend_from_slice(&part.len().to_be_bytes());
        joined.extend_from_slice(part);
    }
    joined
}

fn check_conditions(conditions: &RawDocument) -> Result<()> {
    for element in conditions.iter_elements() {
        let element = element?;
        match element.key().as_str() {
            "$eq" | "$gt" | "$gte" | "$in" | "$lt" | "$lte" | "$type" => {}
            "$exists" if value::is_truthy(element.value()?) => {}
            "$all" if are_equalities(element.value()?) => {}
            name if name.starts_with('$') => return Err(operator_error(name)),
            // The document is a value to compare with.
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Whether the operand of `$all` is a list of plain values, so that the condition is a conjunction of equalities.
fn are_equalities(operand: RawBsonRef<'_>) -> bool {
    operand.as_array().is_some_and(|values| {
        let is_plain = |value: RawBsonRef<'_>| match value {
            RawBsonRef::RegularExpression(_) => false,
            RawBsonRef::Document(inner) => !Filter::is_on_value(inner),
            _ => true,
        };
        !values.is_empty() && value::items(values).all(is_plain)
    })
}

fn operator_error(operator: &str) -> Error {
    let message = format!(
        "{operator} (or $exists: false) cannot be used in the filter of a partial index; \
         use $eq, $gt, $gte, $lt, $lte, $in, $type, $exists: true, $and, $or"
    );
    Error::with_server_code(code::CANNOT_CREATE_INDEX, message)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    #[test]
    fn refused_filters_have_mongodb_codes() {
        let code =
            |filter: RawDocumentBuf| check_filter(&filter).err().and_then(|error| error.code());
        assert_eq!(
            code(rawdoc! { "a": { "$gt": 1 }, "$or": [{ "b": 1 }] }),
            None
        );
        assert_eq!(code(rawdoc! { "a": { "$ne": 1 } }), Some(67));
        assert_eq!(code(rawdoc! { "$nor": [{ "a": 1 }] }), Some(67));
        let inner = rawdoc! { "a": { "$ne": 1 }, "$and": [{ "$expr": true }] };
        assert_eq!(code(inner), Some(224));
        assert_eq!(code(rawdoc! { "$where": "true" }), Some(2));
    }

    #[test]
    fn the_order_of_conditions_does_not_matter() {
        let filter = rawdoc! { "$and": [{ "a": { "$gt": 1, "$lt": 5 } }, { "b": 1 }] };
        let same =
            rawdoc! { "b": { "$eq": 1.0 }, "a": { "$lt": 5 }, "$and": [{ "a": { "$gt": 1 } }] };
        let different = rawdoc! { "b": 1, "a": { "$gt": 1, "$lt": 6 } };
        assert!(is_equivalent(&filter, &same));
        assert!(!is_equivalent(&filter, &different));
        let disjunction =
            |first: i32, second: i32| rawdoc! { "$or": [{ "a": first }, { "a": second }] };
        assert!(is_equivalent(&disjunction(1, 2), &disjunction(2, 1)));
        assert!(!is_equivalent(
            &disjunction(1, 2),
            &rawdoc! { "a": 1, "$and": [{ "a": 2 }] }
        ));
    }
}
