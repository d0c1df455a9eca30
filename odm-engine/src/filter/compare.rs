//! `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`: comparison with a value of the same kind.
//!
//! ```text
//! { "age": { "$gte": 18, "$ne": 21 } }
//! in: { "age": 18.5 }
//! in: { "age": 21 }
//! in: { "age": "30" }
//! out: { "age": 18.5 }
//!
//! { "age": { "$gt": 17, "$lt": 19 } }
//! in: { "age": 18 }
//! in: { "age": 19 }
//! out: { "age": 18 }
//!
//! { "tags": { "$eq": "red" } }
//! in: { "tags": ["red", "round"] }
//! in: { "tags": "blue" }
//! out: { "tags": ["red", "round"] }
//!
//! { "age": { "$lte": null } }
//! in: { "age": null }
//! in: {}
//! in: { "age": 0 }
//! out: { "age": null }
//! out: {}
//! ```

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef};

use super::collated::CollatedTest;
use super::parse::FieldOperand;
use super::{ValuePredicate, ValueTest};
use crate::collation::ValueOrder;
use crate::value::{self, Number};
use crate::{Error, Result};

/// A comparison with a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) operator: CompareOperator,
    pub(crate) value: RawBson,
}

/// The comparison operators of filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompareOperator {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
}

pub(super) fn parse_eq(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    Comparison::equality_predicate(operand.value, operand.order)
}

pub(super) fn parse_ne(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    ordered_predicate(operand, CompareOperator::Eq).map(ValuePredicate::negated)
}

pub(super) fn parse_gt(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    ordered_predicate(operand, CompareOperator::Gt)
}

pub(super) fn parse_gte(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    ordered_predicate(operand, CompareOperator::Gte)
}

pub(super) fn parse_lt(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    ordered_predicate(operand, CompareOperator::Lt)
}

pub(super) fn parse_lte(operand: &FieldOperand<'_>) -> Result<ValuePredicate> {
    ordered_predicate(operand, CompareOperator::Lte)
}

impl Comparison {
    /// Returns an equality condition.
    ///
    /// # Errors
    /// The value is undefined, which cannot be compared.
    pub(super) fn equality_predicate(
        value: RawBsonRef<'_>,
        order: &ValueOrder,
    ) -> Result<ValuePredicate> {
        comparison_predicate(CompareOperator::Eq, value, order)
    }

    /// Returns whether a value passes. A missing value counts as null.
    pub(crate) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        self.matches_by(value, value::compare)
    }

    /// Returns whether a value passes, in an order of values.
    pub(super) fn matches_in_order(
        &self,
        value: Option<RawBsonRef<'_>>,
        order: &ValueOrder,
    ) -> bool {
        self.matches_by(value, |value, operand| order.compare(value, operand))
    }

    fn matches_by(
        &self,
        value: Option<RawBsonRef<'_>>,
        compare: impl Fn(RawBsonRef<'_>, RawBsonRef<'_>) -> Ordering,
    ) -> bool {
        let operand = self.value.as_raw_bson_ref();
        let value = value.unwrap_or(RawBsonRef::Undefined);
        if value::type_rank(value) != value::type_rank(operand) {
            return match (value, operand) {
                (RawBsonRef::Undefined, RawBsonRef::Null) => {
                    self.operator.accepts_order(Ordering::Equal)
                }
                // Values of all types lie between MinKey and MaxKey.
                (_, RawBsonRef::MinKey) => {
                    matches!(self.operator, CompareOperator::Gt | CompareOperator::Gte)
                }
                (_, RawBsonRef::MaxKey) => {
                    matches!(self.operator, CompareOperator::Lt | CompareOperator::Lte)
                }
                _ => false,
            };
        }
        let is_nan = |value| Number::from_bson(value).is_some_and(Number::is_nan);
        match (is_nan(value), is_nan(operand)) {
            (false, false) => self.operator.accepts_order(compare(value, operand)),
            // NaN equals NaN and is neither greater nor less than other values.
            (true, true) => self.operator.accepts_order(Ordering::Equal),
            _ => false,
        }
    }
}

impl CompareOperator {
    /// Returns whether a value with this order relative to the operand passes.
    pub(crate) fn accepts_order(self, order: Ordering) -> bool {
        match self {
            CompareOperator::Eq => order.is_eq(),
            CompareOperator::Gt => order.is_gt(),
            CompareOperator::Gte => order.is_ge(),
            CompareOperator::Lt => order.is_lt(),
            CompareOperator::Lte => order.is_le(),
        }
    }
}

/// Parses a comparison whose operand must not be a regular expression.
fn ordered_predicate(
    operand: &FieldOperand<'_>,
    operator: CompareOperator,
) -> Result<ValuePredicate> {
    if matches!(operand.value, RawBsonRef::RegularExpression(_)) {
        return Err(Error::bad_value(format!(
            "{} on '{}' cannot have a regular expression as its operand",
            operand.operator, operand.field
        )));
    }
    comparison_predicate(operator, operand.value, operand.order)
}

fn comparison_predicate(
    operator: CompareOperator,
    value: RawBsonRef<'_>,
    order: &ValueOrder,
) -> Result<ValuePredicate> {
    if value == RawBsonRef::Undefined {
        return Err(Error::bad_value("cannot compare to undefined"));
    }
    let comparison = Comparison {
        operator,
        value: value.into(),
    };
    Ok(ValuePredicate::Test(match order.collates(value) {
        true => ValueTest::Collated(CollatedTest::comparison(comparison, order)),
        false => ValueTest::Compare(comparison),
    }))
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use bson::{RawBson, RawDocumentBuf, rawdoc};

    fn matches(filter: RawDocumentBuf, document: RawDocumentBuf) -> bool {
        Filter::parse(&filter).unwrap().matches(&document).unwrap()
    }

    #[test]
    fn only_values_of_the_same_kind_are_ordered() {
        assert!(matches(rawdoc! { "a": { "$lt": 5 } }, rawdoc! { "a": 4.5 }));
        assert!(!matches(
            rawdoc! { "a": { "$lt": 5 } },
            rawdoc! { "a": RawBson::Null }
        ));
        assert!(!matches(
            rawdoc! { "a": { "$gt": 5 } },
            rawdoc! { "a": "x" }
        ));
        assert!(matches(
            rawdoc! { "a": { "$gt": RawBson::MinKey } },
            rawdoc! { "a": "x" }
        ));
        assert!(matches(
            rawdoc! { "a": { "$gte": RawBson::Null } },
            rawdoc! {}
        ));
    }

    #[test]
    fn nan_equals_only_itself() {
        let nan = || rawdoc! { "a": f64::NAN };
        assert!(matches(rawdoc! { "a": f64::NAN }, nan()));
        assert!(matches(rawdoc! { "a": { "$lte": f64::NAN } }, nan()));
        assert!(!matches(rawdoc! { "a": { "$lt": 5 } }, nan()));
    }

    #[test]
    fn patterns_are_rejected_in_comparisons() {
        let regex = bson::Regex {
            pattern: "a".try_into().unwrap(),
            options: "".try_into().unwrap(),
        };
        let error = Filter::parse(&rawdoc! { "a": { "$gt": regex } }).unwrap_err();
        assert_eq!(error.code(), Some(2));
    }
}
