//! `$sum`: the sum of the numbers. Other values are ignored.
//!
//! ```text
//! { "$sum": "$a" }
//! in:  { "a": 1 }
//! in:  { "a": "x" }
//! in:  { "a": 2.5 }
//! out: 3.5
//!
//! { "$sum": 1 }
//! in:  {}
//! in:  {}
//! out: 2
//! ```

use bson::{RawBson, RawDocument};

use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::Result;
use crate::expression::Value;
use crate::value::{self, Decimal, Number};

/// A sum of numbers of all types, rounded only at the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct SumAccumulator {
    kind: WidestType,
    /// The sum of the integers and the doubles.
    binary: value::ExactSum,
    decimal: Option<Decimal>,
}

/// The widest numeric type seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum WidestType {
    #[default]
    Int32,
    Int64,
    Double,
    Decimal,
}

pub(super) fn parse_sum(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    call.unary_accumulator(SumAccumulator::default)
}

impl SumAccumulator {
    pub(crate) fn add_number(&mut self, number: Number) {
        let kind = match number {
            Number::Int32(number) => {
                self.binary.add_integer(number.into());
                WidestType::Int32
            }
            Number::Int64(number) => {
                self.binary.add_integer(number);
                WidestType::Int64
            }
            Number::Double(number) => {
                self.binary.add_double(number);
                WidestType::Double
            }
            Number::Decimal(number) => {
                self.decimal = Some(match self.decimal {
                    None => number,
                    Some(sum) => sum.add(number),
                });
                WidestType::Decimal
            }
        };
        self.kind = self.kind.max(kind);
    }

    /// Returns the sum in the narrowest type that holds both the sum and all of the numbers.
    pub(crate) fn to_bson(&self) -> RawBson {
        let integer = self.binary.to_integer();
        match (self.kind, integer) {
            (WidestType::Decimal, _) => RawBson::Decimal128(self.to_decimal().to_bson()),
            (WidestType::Int32, Some(sum)) => {
                i32::try_from(sum).map_or(RawBson::Int64(sum), RawBson::Int32)
            }
            (WidestType::Int64, Some(sum)) => RawBson::Int64(sum),
            _ => RawBson::Double(self.binary.to_double()),
        }
    }

    /// Returns the sum divided by `count`.
    pub(crate) fn to_mean(&self, count: i64) -> RawBson {
        if self.kind == WidestType::Decimal {
            let mean = self.to_decimal().divide(Decimal::from_integer(count));
            return RawBson::Decimal128(mean.to_bson());
        }
        RawBson::Double(self.binary.to_double() / count as f64)
    }

    fn to_decimal(&self) -> Decimal {
        let binary = self.binary.to_decimal();
        match self.decimal {
            None => binary,
            Some(decimal) => decimal.add(binary),
        }
    }
}

impl Accumulator for SumAccumulator {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if let Some(number) = value.as_number() {
            SumAccumulator::add_number(self, number);
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        Some(self.to_bson())
    }
}
