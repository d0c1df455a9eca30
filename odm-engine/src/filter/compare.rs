//! `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`: a value against another of the same kind.
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

use super::parse::Operand;
use super::{Predicate, Test};
use crate::value::{self, Number};
use crate::{Error, Result};

/// A comparison with a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) operator: Operator,
    pub(crate) value: RawBson,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
}

pub(super) fn parse_eq(operand: &Operand<'_>) -> Result<Predicate> {
    Comparison::equality(operand.value)
}

pub(super) fn parse_ne(operand: &Operand<'_>) -> Result<Predicate> {
    ordered(operand, Operator::Eq).map(Predicate::negated)
}

pub(super) fn parse_gt(operand: &Operand<'_>) -> Result<Predicate> {
    ordered(operand, Operator::Gt)
}

pub(super) fn parse_gte(operand: &Operand<'_>) -> Result<Predicate> {
    ordered(operand, Operator::Gte)
}

pub(super) fn parse_lt(operand: &Operand<'_>) -> Result<Predicate> {
    ordered(operand, Operator::Lt)
}

pub(super) fn parse_lte(operand: &Operand<'_>) -> Result<Predicate> {
    ordered(operand, Operator::Lte)
}

impl Comparison {
    /// A comparison for equality.
    ///
    /// # Errors
    /// There is nothing that equals undefined.
    pub(super) fn equality(value: RawBsonRef<'_>) -> Result<Predicate> {
        comparison(Operator::Eq, value)
    }

    /// Whether a value passes; a missing one counts as null.
    pub(crate) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let operand = self.value.as_raw_bson_ref();
        let value = value.unwrap_or(RawBsonRef::Undefined);
        if value::rank(value) != value::rank(operand) {
            return match (value, operand) {
                (RawBsonRef::Undefined, RawBsonRef::Null) => self.operator.accepts(Ordering::Equal),
                // Everything lies between the two ends, whatever its type.
                (_, RawBsonRef::MinKey) => matches!(self.operator, Operator::Gt | Operator::Gte),
                (_, RawBsonRef::MaxKey) => matches!(self.operator, Operator::Lt | Operator::Lte),
                _ => false,
            };
        }
        let is_nan = |value| Number::from_bson(value).is_some_and(Number::is_nan);
        match (is_nan(value), is_nan(operand)) {
            (false, false) => self.operator.accepts(value::compare(value, operand)),
            // NaN is equal to itself and neither above nor below anything.
            (true, true) => self.operator.accepts(Ordering::Equal),
            _ => false,
        }
    }
}

impl Operator {
    /// Whether a value that lies so in relation to the operand passes.
    pub(crate) fn accepts(self, order: Ordering) -> bool {
        match self {
            Operator::Eq => order.is_eq(),
            Operator::Gt => order.is_gt(),
            Operator::Gte => order.is_ge(),
            Operator::Lt => order.is_lt(),
            Operator::Lte => order.is_le(),
        }
    }
}

/// A comparison by an operator that refuses patterns.
fn ordered(operand: &Operand<'_>, operator: Operator) -> Result<Predicate> {
    if matches!(operand.value, RawBsonRef::RegularExpression(_)) {
        return Err(Error::bad_value(format!(
            "{} on '{}' cannot have a regular expression as its operand",
            operand.operator, operand.field
        )));
    }
    comparison(operator, operand.value)
}

fn comparison(operator: Operator, value: RawBsonRef<'_>) -> Result<Predicate> {
    if value == RawBsonRef::Undefined {
        return Err(Error::bad_value("cannot compare to undefined"));
    }
    Ok(Predicate::Test(Test::Compare(Comparison {
        operator,
        value: value.into(),
    })))
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
    fn patterns_are_refused_where_they_mean_nothing() {
        let regex = bson::Regex {
            pattern: "a".try_into().unwrap(),
            options: "".try_into().unwrap(),
        };
        let error = Filter::parse(&rawdoc! { "a": { "$gt": regex } }).unwrap_err();
        assert_eq!(error.code(), Some(2));
    }
}
