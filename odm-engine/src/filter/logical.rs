//! `$and`, `$or`, `$nor`: combined conditions. `$comment` is ignored.
//!
//! ```text
//! { "$or": [{ "price": { "$lt": 5 } }, { "sale": true }] }
//! in: { "price": 4 }
//! in: { "price": 9, "sale": true }
//! in: { "price": 9 }
//! out: { "price": 4 }
//! out: { "price": 9, "sale": true }
//!
//! { "$and": [{ "price": { "$lt": 5 } }, { "sale": true }], "$comment": "of the week" }
//! in: { "price": 4, "sale": true }
//! in: { "price": 4 }
//! out: { "price": 4, "sale": true }
//!
//! { "$nor": [{ "price": { "$lt": 5 } }, { "sale": true }] }
//! in: { "price": 4 }
//! in: { "price": 9 }
//! in: {}
//! out: { "price": 9 }
//! out: {}
//! ```

use bson::RawBsonRef;

use super::parse::{self, DocumentOperand};
use super::{CompareOperator, FilterExpression, Membership, ValueTest};
use crate::path::Path;
use crate::{Error, Result, value};

pub(super) fn parse_and(condition: &DocumentOperand<'_>) -> Result<FilterExpression> {
    parse_branches(condition).map(FilterExpression::And)
}

/// Parses `$or`. Rewrites `a = 1 or a = 2` as `a in (1, 2)`, which an index can answer and which
/// sets the matched position.
pub(super) fn parse_or(condition: &DocumentOperand<'_>) -> Result<FilterExpression> {
    let branches = parse_branches(condition)?;
    let Some((path, values)) = common_equalities(&branches) else {
        return Ok(FilterExpression::Or(branches));
    };
    let membership = Membership::from_values(values)?;
    // If all values are equal, keep the `$or`: an upsert would read a single `$in` value as an
    // equality.
    Ok(match membership.only_value() {
        None => FilterExpression::Field(path.clone(), ValueTest::In(membership)),
        Some(_) => FilterExpression::Or(branches),
    })
}

pub(super) fn parse_nor(condition: &DocumentOperand<'_>) -> Result<FilterExpression> {
    parse_branches(condition).map(FilterExpression::Nor)
}

pub(super) fn parse_comment(_: &DocumentOperand<'_>) -> Result<FilterExpression> {
    Ok(FilterExpression::And(Vec::new()))
}

/// Returns the common path and the values if all conditions are equalities at one path.
fn common_equalities(branches: &[FilterExpression]) -> Option<(&Path, Vec<RawBsonRef<'_>>)> {
    let mut common = None;
    let values: Option<Vec<_>> = branches
        .iter()
        .map(|branch| match branch {
            FilterExpression::Field(path, ValueTest::Compare(comparison))
                if comparison.operator == CompareOperator::Eq
                    && common.is_none_or(|common| common == path) =>
            {
                common = Some(path);
                Some(comparison.value.as_raw_bson_ref())
            }
            _ => None,
        })
        .collect();
    common.zip(values)
}

fn parse_branches(condition: &DocumentOperand<'_>) -> Result<Vec<FilterExpression>> {
    let name = condition.operator;
    let array = condition
        .value
        .as_array()
        .ok_or_else(|| Error::bad_value(format!("{name} must be an array of filters")))?;
    if array.is_empty() {
        return Err(Error::bad_value(format!("{name} must not be empty")));
    }
    value::items(array)
        .map(|branch| match branch {
            RawBsonRef::Document(branch) => parse::parse_document(branch, condition.place),
            _ => Err(Error::bad_value(format!(
                "the entries of {name} must be filters"
            ))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::rawdoc;

    #[test]
    fn branches_are_combined() {
        let matches = |operator: &str, value: i32| {
            let operator: &bson::raw::CStr = operator.try_into().unwrap();
            let branches = [rawdoc! { "a": { "$gt": 1 } }, rawdoc! { "a": { "$lt": 5 } }];
            let mut filter = bson::RawDocumentBuf::new();
            filter.append(
                operator,
                branches.into_iter().collect::<bson::RawArrayBuf>(),
            );
            Filter::parse(&filter)
                .unwrap()
                .matches(&rawdoc! { "a": value })
                .unwrap()
        };
        assert!(matches("$and", 3) && !matches("$and", 7));
        assert!(matches("$or", 7));
        assert!(!matches("$nor", 3) && !matches("$nor", 7));
    }
}
