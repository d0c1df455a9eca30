//! `$inc`, `$mul`: adds to a number, multiplies it.
//!
//! A result too large for 32 bits takes 64; one too large for these is an error.
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

use super::node::Node;
use super::operation::{Operations, Operator};
use crate::value::{self, Number};
use crate::{Error, Result};

#[derive(Debug)]
struct Arithmetic {
    operation: Operation,
    operand: Number,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Add,
    Multiply,
}

pub(super) fn parse_inc(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    parse(operations, path, operand, Operation::Add)
}

pub(super) fn parse_mul(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
) -> Result<()> {
    parse(operations, path, operand, Operation::Multiply)
}

fn parse(
    operations: &mut Operations,
    path: &str,
    operand: RawBsonRef<'_>,
    operation: Operation,
) -> Result<()> {
    let operand = Number::from_bson(operand).ok_or_else(|| {
        let kind = value::type_name(operand);
        Error::server(
            14,
            format!(
                "{} of '{path}' needs a number, not a value of type {kind}",
                operation.name()
            ),
        )
    })?;
    operations.change(path, Arithmetic { operation, operand })
}

impl Operator for Arithmetic {
    fn existing(&self, path: &str, value: &mut Node<'_>) -> Result<bool> {
        let name = self.operation.name();
        let number = value.with(|value| {
            Number::from_bson(value).ok_or_else(|| {
                let kind = value::type_name(value);
                Error::server(
                    14,
                    format!("{name} needs a number at '{path}', which is of type {kind}"),
                )
            })
        })?;
        let result = self.operation.apply(number, self.operand).ok_or_else(|| {
            Error::bad_value(format!("{name} of '{path}' does not fit into 64 bits"))
        })?;
        // NaN is no number's equal, so it always counts as new.
        if number.same_type(result) && number.compare(result).is_eq() && !result.is_nan() {
            return Ok(false);
        }
        *value = Node::New(result.to_bson());
        Ok(true)
    }

    fn missing(&self) -> Result<Option<RawBson>> {
        let result = match self.operation {
            Operation::Add => Some(self.operand),
            Operation::Multiply => self.operation.apply(self.operand, Number::Int32(0)),
        };
        Ok(result.map(Number::to_bson))
    }
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Add => "$inc",
            Operation::Multiply => "$mul",
        }
    }

    /// The result in the wider of the two types; `None` if integers overflow.
    fn apply(self, a: Number, b: Number) -> Option<Number> {
        use Number as N;
        Some(match (a, b) {
            (N::Decimal(_), _) | (_, N::Decimal(_)) => {
                let (a, b) = (a.to_decimal(), b.to_decimal());
                N::Decimal(match self {
                    Operation::Add => a.add(b),
                    Operation::Multiply => a.multiply(b),
                })
            }
            (N::Double(_), _) | (_, N::Double(_)) => {
                let (a, b) = (a.to_double(), b.to_double());
                let result = match self {
                    Operation::Add => a + b,
                    Operation::Multiply => a * b,
                };
                // Processors disagree about the sign of a new NaN.
                N::Double(if result.is_nan() { f64::NAN } else { result })
            }
            (a, b) => {
                let (x, y) = (a.whole()?, b.whole()?);
                let result = match self {
                    Operation::Add => x.checked_add(y)?,
                    Operation::Multiply => x.checked_mul(y)?,
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
    use super::super::tests::updated;
    use bson::{RawBson, rawdoc};

    #[test]
    fn the_wider_type_wins() {
        let inc =
            |a: RawBson, b: RawBson| updated(rawdoc! { "a": a }, rawdoc! { "$inc": { "a": b } });
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
        let changed = updated(
            rawdoc! {},
            rawdoc! { "$inc": { "a": 5 }, "$mul": { "b": 2.5 } },
        );
        assert_eq!(changed.unwrap(), rawdoc! { "a": 5, "b": 0.0 });
    }
}
