//! What the filter of a partial index may say.

use bson::{RawBsonRef, RawDocument};

use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::filter::Filter;
use crate::key::value::encode;
use crate::value;

/// Refuses the operators that MongoDB refuses here: whether a query implies them is hard to tell.
pub(super) fn check(filter: &RawDocument) -> Result<()> {
    refuse_special(filter)?;
    check_supported(filter)
}

/// Refuses what is no condition on a field, first and under numbers of its own.
///
/// The parser of filters runs later: it does not support some of these operators.
pub(super) fn refuse_special(filter: &RawDocument) -> Result<()> {
    for element in filter.iter_elements() {
        let element = element?;
        let code = match (element.key().as_str(), element.value()?) {
            ("$and" | "$or" | "$nor", RawBsonRef::Array(branches)) => {
                for branch in branches {
                    branch?.as_document().map_or(Ok(()), refuse_special)?;
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
        return Err(Error::server(code, message));
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
            (name, _) if name.starts_with('$') => return Err(not_allowed(name)),
            (_, RawBsonRef::RegularExpression(_)) => return Err(not_allowed("$regex")),
            (_, RawBsonRef::Document(conditions)) => check_conditions(conditions)?,
            _ => {}
        }
    }
    Ok(())
}

/// Whether two filters say the same: the order of what is connected by and or by or does not matter,
/// nor do the types of numbers.
pub(super) fn is_same(a: &RawDocument, b: &RawDocument) -> bool {
    match (normalized(a), normalized(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a.as_bytes() == b.as_bytes(),
    }
}

/// A condition, as bytes that are equal for equal conditions.
type Clause = Vec<u8>;

/// The conditions that all hold, each once, in a fixed order.
fn normalized(filter: &RawDocument) -> Result<Vec<Clause>> {
    let mut clauses = Vec::new();
    collect(filter, &mut clauses)?;
    clauses.sort_unstable();
    clauses.dedup();
    Ok(clauses)
}

fn collect(filter: &RawDocument, clauses: &mut Vec<Clause>) -> Result<()> {
    for element in filter.iter_elements() {
        let element = element?;
        match (element.key().as_str(), element.value()?) {
            ("$and", RawBsonRef::Array(all)) => {
                for branch in all {
                    branch?
                        .as_document()
                        .map_or(Ok(()), |branch| collect(branch, clauses))?;
                }
            }
            ("$or", RawBsonRef::Array(any)) => {
                let mut branches = Vec::new();
                for branch in any {
                    let branch = branch?.as_document().map(normalized).transpose()?;
                    branches.push(branch.unwrap_or_default());
                }
                branches.sort_unstable();
                branches.dedup();
                match branches.as_mut_slice() {
                    [only] => clauses.append(only),
                    branches => {
                        let branches: Vec<_> =
                            branches.iter().map(|all| joined("$and", all)).collect();
                        clauses.push(joined("$or", &branches));
                    }
                }
            }
            ("$comment", _) => {}
            (path, RawBsonRef::Document(conditions)) if Filter::is_on_value(conditions) => {
                for (operator, operand) in value::fields(conditions) {
                    match operand {
                        RawBsonRef::Array(all) if operator == "$all" => {
                            for value in value::items(all) {
                                clauses.push(clause(path, "$eq", value)?);
                            }
                        }
                        operand => clauses.push(clause(path, operator, operand)?),
                    }
                }
            }
            (path, value) => clauses.push(clause(path, "$eq", value)?),
        }
    }
    Ok(())
}

fn clause(path: &str, operator: &str, operand: RawBsonRef<'_>) -> Result<Clause> {
    let mut encoded = Vec::new();
    encode(operand, Direction::Ascending, &mut encoded)?;
    Ok(joined(path, &[joined(operator, &[encoded])]))
}

/// Texts and lists with their lengths, so that no two joins look alike.
fn joined(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
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
            name if name.starts_with('$') => return Err(not_allowed(name)),
            // A document to compare with.
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Whether the operand of `$all` is a list of plain values, so that the condition is several equalities.
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

fn not_allowed(operator: &str) -> Error {
    let message = format!(
        "{operator} (or $exists: false) cannot be used in the filter of a partial index; \
         use $eq, $gt, $gte, $lt, $lte, $in, $type, $exists: true, $and, $or"
    );
    Error::server(code::CANNOT_CREATE_INDEX, message)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    #[test]
    fn what_is_refused_has_its_number() {
        let code = |filter: RawDocumentBuf| check(&filter).err().and_then(|error| error.code());
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
        let one = rawdoc! { "$and": [{ "a": { "$gt": 1, "$lt": 5 } }, { "b": 1 }] };
        let same =
            rawdoc! { "b": { "$eq": 1.0 }, "a": { "$lt": 5 }, "$and": [{ "a": { "$gt": 1 } }] };
        let other = rawdoc! { "b": 1, "a": { "$gt": 1, "$lt": 6 } };
        assert!(is_same(&one, &same));
        assert!(!is_same(&one, &other));
        let either = |first: i32, second: i32| rawdoc! { "$or": [{ "a": first }, { "a": second }] };
        assert!(is_same(&either(1, 2), &either(2, 1)));
        assert!(!is_same(
            &either(1, 2),
            &rawdoc! { "a": 1, "$and": [{ "a": 2 }] }
        ));
    }
}
