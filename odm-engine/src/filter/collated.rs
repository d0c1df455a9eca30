//! Comparisons with strings under the collation of an operation.

use bson::{RawBson, RawBsonRef};

use super::{CompareOperator, Comparison};
use crate::collation::ValueOrder;
use crate::pattern::Regex;

/// A comparison with strings, or with values that may contain strings, under a collation.
#[derive(Debug)]
pub(crate) struct CollatedTest {
    order: ValueOrder,
    operand: CollatedOperand,
}

/// The values that a [`CollatedTest`] compares with, as the filter has them.
#[derive(Debug)]
pub(crate) enum CollatedOperand {
    Compare(Comparison),
    In {
        /// The values in the order of the collation.
        values: Vec<RawBson>,
        patterns: Vec<Regex>,
    },
}

impl CollatedTest {
    pub(super) fn comparison(comparison: Comparison, order: &ValueOrder) -> CollatedTest {
        CollatedTest {
            order: order.clone(),
            operand: CollatedOperand::Compare(comparison),
        }
    }

    pub(super) fn membership(
        mut values: Vec<RawBson>,
        patterns: Vec<Regex>,
        order: &ValueOrder,
    ) -> CollatedTest {
        values.sort_by(|a, b| order.compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
        CollatedTest {
            order: order.clone(),
            operand: CollatedOperand::In { values, patterns },
        }
    }

    /// Returns whether a value passes. A missing value counts as null.
    pub(super) fn matches(&self, value: Option<RawBsonRef<'_>>) -> bool {
        match &self.operand {
            CollatedOperand::Compare(comparison) => comparison.matches_in_order(value, &self.order),
            CollatedOperand::In { values, patterns } => {
                let value = match value {
                    None | Some(RawBsonRef::Undefined) => RawBsonRef::Null,
                    Some(value) => value,
                };
                let compare = |known: &RawBson| self.order.compare(known.as_raw_bson_ref(), value);
                values.binary_search_by(compare).is_ok()
                    || patterns.iter().any(|pattern| pattern.matches(value))
            }
        }
    }

    pub(crate) fn order(&self) -> &ValueOrder {
        &self.order
    }

    pub(crate) fn operand(&self) -> &CollatedOperand {
        &self.operand
    }

    /// Returns the value of an equality, as the filter has it. An upsert starts from the value.
    pub(super) fn equal_value(&self) -> Option<&RawBson> {
        match &self.operand {
            CollatedOperand::Compare(comparison) => {
                (comparison.operator == CompareOperator::Eq).then_some(&comparison.value)
            }
            CollatedOperand::In { values, patterns } => match (values.as_slice(), patterns.len()) {
                ([only], 0) => Some(only),
                _ => None,
            },
        }
    }
}
