//! Whether one filter says no less than another.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef};

use super::compare::Operator;
use super::{Comparison, Expression, Test};
use crate::path::Path;
use crate::value::{self, Number};

/// Whether every document that matches `a` also matches `b`, as far as this can be told simply.
pub(super) fn implies(a: &Expression, b: &Expression) -> bool {
    match (a, b) {
        (a, Expression::And(all)) => all.iter().all(|b| implies(a, b)),
        (Expression::Or(any), b) if !any.is_empty() => any.iter().all(|a| implies(a, b)),
        (Expression::And(all), b) => all.iter().any(|a| implies(a, b)),
        (a, Expression::Or(any)) => any.iter().any(|b| implies(a, b)),
        (Expression::Expr(a), b) => implies(a.implied(), b),
        (Expression::Field(a_path, a), Expression::Field(b_path, b)) => {
            a_path == b_path && test_implies(a, b)
        }
        _ => false,
    }
}

/// Whether what matches has a value, null included, at the path.
pub(super) fn requires(expression: &Expression, path: &Path) -> bool {
    match expression {
        Expression::And(all) => all.iter().any(|inner| requires(inner, path)),
        Expression::Or(any) => !any.is_empty() && any.iter().all(|inner| requires(inner, path)),
        Expression::Field(own, test) => own == path && !test.matches(None, &mut None),
        Expression::Expr(expr) => requires(expr.implied(), path),
        Expression::Nor(_) | Expression::Not(_) => false,
    }
}

/// Whether each single value that passes `a` passes `b`.
///
/// That is enough for arrays too: the element that passes `a` is one that passes `b`.
fn test_implies(a: &Test, b: &Test) -> bool {
    let passes_b = |value: &RawBson| b.matches(Some(value.as_raw_bson_ref()), &mut None);
    match (a, b) {
        (a, Test::Exists) => !a.matches(None, &mut None),
        // Null stands for missing as well, and undefined for either.
        (Test::Compare(a), b) if a.operator == Operator::Eq => {
            passes_b(&a.value) && (a.value != RawBson::Null || b.matches(None, &mut None))
        }
        (Test::In(a), b) if a.patterns().is_empty() => a.values().iter().all(|value| {
            passes_b(value) && (*value != RawBson::Null || b.matches(None, &mut None))
        }),
        (Test::Compare(a), Test::Compare(b)) => range_implies(a, b),
        (Test::Regex(a), Test::Regex(b)) => a.source() == b.source(),
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
    if value::rank(a_value) != value::rank(b_value) || special(a_value) || special(b_value) {
        return false;
    }
    let order = value::compare(a_value, b_value);
    match (a.operator, b.operator) {
        (Operator::Gt, Operator::Gt | Operator::Gte) | (Operator::Gte, Operator::Gte) => {
            order != Ordering::Less
        }
        (Operator::Gte, Operator::Gt) => order == Ordering::Greater,
        (Operator::Lt, Operator::Lt | Operator::Lte) | (Operator::Lte, Operator::Lte) => {
            order != Ordering::Greater
        }
        (Operator::Lte, Operator::Lt) => order == Ordering::Less,
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
        let requires =
            |filter: RawDocumentBuf| Filter::parse(&filter).unwrap().requires(&Path::new("a"));
        assert!(requires(rawdoc! { "a": 1 }));
        assert!(requires(rawdoc! { "a": { "$exists": true } }));
        assert!(!requires(rawdoc! { "a": RawBson::Null }));
        assert!(!requires(rawdoc! { "a": { "$ne": 1 } }));
        assert!(!requires(rawdoc! { "b": 1 }));
    }
}
