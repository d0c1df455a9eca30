//! `$inc`, `$mul`: adds to a number or multiplies a number.
//!
//! A result that exceeds 32 bits becomes a long. A result that exceeds 64 bits is an error.
//!
//! ```text
//! { "$inc": { "stock": -2 }, "$mul": { "price": 1.5 } }
//! in: { "stock": 5, "price": 4 }
//! in: {}
//! out: { "stock": 3, "price": 6.0 }
//! out: { "price": 0.0, "stock": -2 }
//!
//! { "$inc": { "visits": 1 } }
//! in: { "visits": 2147483647 }
//! out: { "visits": { "$numberLong": "2147483648" } }
//! ```

use bson::{RawBson, RawBsonRef};

use super::node::UpdateNode;
use super::operation::{UpdateOperations, UpdateOperator};
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug)]
struct Arithmetic {
    operation: ArithmeticOperation,
    operand: Number,
}

#[derive(Debug, Clone, Copy)]
enum ArithmeticOperation {
    Add,
    Multiply,
}

pub(super) fn parse_inc(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    parse_arithmetic(operations, path, operand, ArithmeticOperation::Add)
}

pub(super) fn parse_mul(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    parse_arithmetic(operations, path, operand, ArithmeticOperation::Multiply)
}

fn parse_arithmetic(
    operations: &mut UpdateOperations,
    path: &str,
    operand: RawBsonRef<'_>,
    operation: ArithmeticOperation,
) -> Result<()> {
    let operand = Number::from_bson(operand).ok_or_else(|| {
        let kind = value::type_name(operand);
        Error::with_server_code(
            14,
            format!(
                "{} of '{path}' needs a number, not a value of type {kind}",
                operation.operator_name()
            ),
        )
    })?;
    operations.push_change(path, Arithmetic { operation, operand })
}

impl UpdateOperator for Arithmetic {
    fn change_existing(&self, path: &str, value: &mut UpdateNode<'_>) -> Result<bool> {
        let name = self.operation.operator_name();
        let number = value.with_value(|value| {
            Number::from_bson(value).ok_or_else(|| {
                let kind = value::type_name(value);
                Error::with_server_code(
                    14,
                    format!("{name} needs a number at '{path}', which is of type {kind}"),
                )
            })
        })?;
        let result = self
            .operation
            .apply_to(number, self.operand)
            .ok_or_else(|| {
                Error::bad_value(format!("{name} of '{path}' does not fit into 64 bits"))
            })?;
        // NaN never equals the old value, so a NaN result counts as a change.
        if number.same_type(result) && number.compare(result).is_eq() && !result.is_nan() {
            return Ok(false);
        }
        *value = UpdateNode::New(result.to_bson());
        Ok(true)
    }

    fn initial_value(&self) -> Result<Option<RawBson>> {
        let result = match self.operation {
            ArithmeticOperation::Add => Some(self.operand),
            ArithmeticOperation::Multiply => {
                self.operation.apply_to(self.operand, Number::Int32(0))
            }
        };
        Ok(result.map(Number::to_bson))
    }
}

impl ArithmeticOperation {
    fn operator_name(self) -> &'static str {
        match self {
            ArithmeticOperation::Add => "$inc",
            ArithmeticOperation::Multiply => "$mul",
        }
    }

    /// Returns the result in the wider of the two types. `None` if integers overflow.
    fn apply_to(self, a: Number, b: Number) -> Option<Number> {
        use Number as N;
        Some(match (a, b) {
            (N::Decimal(_), _) | (_, N::Decimal(_)) => {
                let (a, b) = (a.to_decimal(), b.to_decimal());
                N::Decimal(match self {
                    ArithmeticOperation::Add => a.add(b),
                    ArithmeticOperation::Multiply => a.multiply(b),
                })
            }
            (N::Double(_), _) | (_, N::Double(_)) => {
                let (a, b) = (a.to_double(), b.to_double());
                let result = match self {
                    ArithmeticOperation::Add => a + b,
                    ArithmeticOperation::Multiply => a * b,
                };
                // Processors differ in the sign of a new NaN.
                N::Double(if result.is_nan() { f64::NAN } else { result })
            }
            (a, b) => {
                let (x, y) = (a.whole_long()?, b.whole_long()?);
                let result = match self {
                    ArithmeticOperation::Add => x.checked_add(y)?,
                    ArithmeticOperation::Multiply => x.checked_mul(y)?,
                };
                match (a, b, i32::try_from(result)) {
                    (N::Int32(_), N::Int32(_), Ok(small)) => N::Int32(small),
                    _ => N::Int64(result),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::apply_update;
    use bson::{RawBson, rawdoc};

    #[test]
    fn the_wider_type_wins() {
        let inc = |a: RawBson, b: RawBson| {
            apply_update(rawdoc! { "a": a }, rawdoc! { "$inc": { "a": b } })
        };
        let result = |a, b| inc(a, b).unwrap().get("a").unwrap().map(RawBson::from);
        assert_eq!(result(1.into(), 2.into()), Some(3.into()));
        assert_eq!(
            result(i32::MAX.into(), 1.into()),
            Some(2_147_483_648_i64.into())
        );
        assert_eq!(result(1_i64.into(), 2.into()), Some(3_i64.into()));
        assert_eq!(result(1.into(), 0.5.into()), Some(1.5.into()));
        assert_eq!(inc(i64::MAX.into(), 1.into()).unwrap_err().code(), Some(2));
        assert_eq!(inc("x".into(), 1.into()).unwrap_err().code(), Some(14));
    }

    #[test]
    fn what_is_missing_counts_as_zero() {
        let changed = apply_update(
            rawdoc! {},
            rawdoc! { "$inc": { "a": 5 }, "$mul": { "b": 2.5 } },
        );
        assert_eq!(changed.unwrap(), rawdoc! { "a": 5, "b": 0.0 });
    }
}
