//! Implication between filters.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef};

use super::compare::CompareOperator;
use super::{Comparison, FilterExpression, ValueTest};
use crate::path::Path;
use crate::value::{self, Number};

/// Returns whether every document that matches `a` also matches `b`. May return false although the
/// implication holds.
pub(super) fn implies(a: &FilterExpression, b: &FilterExpression) -> bool {
    match (a, b) {
        (a, FilterExpression::And(all)) => all.iter().all(|b| implies(a, b)),
        (FilterExpression::Or(any), b) if !any.is_empty() => any.iter().all(|a| implies(a, b)),
        (FilterExpression::And(all), b) => all.iter().any(|a| implies(a, b)),
        (a, FilterExpression::Or(any)) => any.iter().any(|b| implies(a, b)),
        (FilterExpression::Expr(a), b) => implies(a.implied_condition(), b),
        (FilterExpression::Field(a_path, a), FilterExpression::Field(b_path, b)) => {
            a_path == b_path && test_implies_test(a, b)
        }
        _ => false,
    }
}

/// Returns whether every matching document has a value, possibly null, at the path.
pub(super) fn requires_path(expression: &FilterExpression, path: &Path) -> bool {
    match expression {
        FilterExpression::And(all) => all.iter().any(|inner| requires_path(inner, path)),
        FilterExpression::Or(any) => {
            !any.is_empty() && any.iter().all(|inner| requires_path(inner, path))
        }
        FilterExpression::Field(field_path, test) => {
            field_path == path && !test.matches(None, &mut None)
        }
        FilterExpression::Expr(expr) => requires_path(expr.implied_condition(), path),
        FilterExpression::Nor(_) | FilterExpression::Not(_) => false,
    }
}

/// Returns whether every single value that passes `a` also passes `b`.
///
/// That suffices for arrays: an element that passes `a` also passes `b`.
fn test_implies_test(a: &ValueTest, b: &ValueTest) -> bool {
    let matches_b = |value: &RawBson| b.matches(Some(value.as_raw_bson_ref()), &mut None);
    match (a, b) {
        (a, ValueTest::Exists) => !a.matches(None, &mut None),
        // Null also matches missing values, and undefined matches both.
        (ValueTest::Compare(a), b) if a.operator == CompareOperator::Eq => {
            matches_b(&a.value) && (a.value != RawBson::Null || b.matches(None, &mut None))
        }
        (ValueTest::In(a), b) if a.patterns().is_empty() => {
            a.compared_values().iter().all(|value| {
                matches_b(value) && (*value != RawBson::Null || b.matches(None, &mut None))
            })
        }
        (ValueTest::Compare(a), ValueTest::Compare(b)) => range_implies(a, b),
        (ValueTest::Regex(a), ValueTest::Regex(b)) => {
            a.pattern_and_options() == b.pattern_and_options()
        }
        _ => false,
    }
}

fn range_implies(a: &Comparison, b: &Comparison) -> bool {
    if a == b {
        return true;
    }
    let (a_value, b_value) = (a.value.as_raw_bson_ref(), b.value.as_raw_bson_ref());
    let special = |value| {
        matches!(
            value,
            RawBsonRef::Null | RawBsonRef::MinKey | RawBsonRef::MaxKey
        ) || Number::from_bson(value).is_some_and(Number::is_nan)
    };
    if value::type_rank(a_value) != value::type_rank(b_value)
        || special(a_value)
        || special(b_value)
    {
        return false;
    }
    let order = value::compare(a_value, b_value);
    match (a.operator, b.operator) {
        (CompareOperator::Gt, CompareOperator::Gt | CompareOperator::Gte)
        | (CompareOperator::Gte, CompareOperator::Gte) => order != Ordering::Less,
        (CompareOperator::Gte, CompareOperator::Gt) => order == Ordering::Greater,
        (CompareOperator::Lt, CompareOperator::Lt | CompareOperator::Lte)
        | (CompareOperator::Lte, CompareOperator::Lte) => order != Ordering::Greater,
        (CompareOperator::Lte, CompareOperator::Lt) => order == Ordering::Less,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use crate::path::Path;
    use bson::{RawBson, RawDocumentBuf, rawdoc};

    fn implies(a: RawDocumentBuf, b: RawDocumentBuf) -> bool {
        Filter::parse(&a)
            .unwrap()
            .implies(&Filter::parse(&b).unwrap())
    }

    #[test]
    fn narrower_ranges_imply_wider_ones() {
        assert!(implies(
            rawdoc! { "a": 7, "b": 1 },
            rawdoc! { "a": { "$gt": 5 } }
        ));
        assert!(implies(
            rawdoc! { "a": { "$gt": 7 } },
            rawdoc! { "a": { "$gte": 5 } }
        ));
        assert!(implies(
            rawdoc! { "a": { "$in": [7, 8] } },
            rawdoc! { "a": { "$exists": true } }
        ));
        assert!(implies(
            rawdoc! { "$or": [{ "a": 7 }, { "a": 8 }] },
            rawdoc! { "a": { "$gt": 5 } }
        ));
        assert!(!implies(
            rawdoc! { "a": { "$gte": 5 } },
            rawdoc! { "a": { "$gt": 5 } }
        ));
        assert!(!implies(
            rawdoc! { "a": { "$gt": 7 } },
            rawdoc! { "a": { "$gt": "x" } }
        ));
        assert!(!implies(
            rawdoc! { "a": RawBson::Null },
            rawdoc! { "a": { "$exists": true } }
        ));
        assert!(implies(rawdoc! { "a": 1 }, rawdoc! {}));
    }

    #[test]
    fn a_required_path_is_not_missing() {
        let requires = |filter: RawDocumentBuf| {
            Filter::parse(&filter)
                .unwrap()
                .requires_path(&Path::new("a"))
        };
        assert!(requires(rawdoc! { "a": 1 }));
        assert!(requires(rawdoc! { "a": { "$exists": true } }));
        assert!(!requires(rawdoc! { "a": RawBson::Null }));
        assert!(!requires(rawdoc! { "a": { "$ne": 1 } }));
        assert!(!requires(rawdoc! { "b": 1 }));
    }
}
