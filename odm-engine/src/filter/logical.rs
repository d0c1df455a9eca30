//! `$and`, `$or`, `$nor`: conditions combined; `$comment`: nothing at all.
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

use super::parse::{self, Condition};
use super::{CompareOperator, Expression, Membership, Test};
use crate::path::Path;
use crate::{Error, Result, value};

pub(super) fn parse_and(condition: &Condition<'_>) -> Result<Expression> {
    branches(condition).map(Expression::And)
}

/// Turns `a = 1 or a = 2` into `a in (1, 2)`, which an index can answer and which tells positions.
pub(super) fn parse_or(condition: &Condition<'_>) -> Result<Expression> {
    let branches = branches(condition)?;
    let Some((path, values)) = equalities(&branches) else {
        return Ok(Expression::Or(branches));
    };
    let membership = Membership::of_values(values)?;
    // Of the same value twice, an upsert would make an equality.
    Ok(match membership.only_value() {
        None => Expression::Field(path.clone(), Test::In(membership)),
        Some(_) => Expression::Or(branches),
    })
}

pub(super) fn parse_nor(condition: &Condition<'_>) -> Result<Expression> {
    branches(condition).map(Expression::Nor)
}

pub(super) fn parse_comment(_: &Condition<'_>) -> Result<Expression> {
    Ok(Expression::And(Vec::new()))
}

/// The values of conditions that all ask for equality at one path.
fn equalities(branches: &[Expression]) -> Option<(&Path, Vec<RawBsonRef<'_>>)> {
    let mut common = None;
    let values: Option<Vec<_>> = branches
        .iter()
        .map(|branch| match branch {
            Expression::Field(path, Test::Compare(comparison))
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

fn branches(condition: &Condition<'_>) -> Result<Vec<Expression>> {
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
            RawBsonRef::Document(branch) => parse::document(branch, condition.place),
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
