//! `$sum`: numbers added up. What is no number does not count.
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

use super::{Accumulation, Accumulator, Call};
use crate::Result;
use crate::expression::Value;
use crate::value::{self, Decimal, Number};

/// A sum of numbers of all types, without loss until its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    kind: Kind,
    /// The integers and the doubles.
    binary: value::Sum,
    decimal: Option<Decimal>,
}

/// The widest type of the numbers so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    #[default]
    Int32,
    Int64,
    Double,
    Decimal,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    call.unary(Sum::default)
}

impl Sum {
    pub(crate) fn add(&mut self, number: Number) {
        let kind = match number {
            Number::Int32(number) => {
                self.binary.add_integer(number.into());
                Kind::Int32
            }
            Number::Int64(number) => {
                self.binary.add_integer(number);
                Kind::Int64
            }
            Number::Double(number) => {
                self.binary.add(number);
                Kind::Double
            }
            Number::Decimal(number) => {
                self.decimal = Some(match self.decimal {
                    None => number,
                    Some(sum) => sum.add(number),
                });
                Kind::Decimal
            }
        };
        self.kind = self.kind.max(kind);
    }

    /// The sum in the narrowest type that holds it and all of the numbers.
    pub(crate) fn total(&self) -> RawBson {
        let integer = self.binary.to_integer();
        match (self.kind, integer) {
            (Kind::Decimal, _) => RawBson::Decimal128(self.to_decimal().to_bson()),
            (Kind::Int32, Some(sum)) => {
                i32::try_from(sum).map_or(RawBson::Int64(sum), RawBson::Int32)
            }
            (Kind::Int64, Some(sum)) => RawBson::Int64(sum),
            _ => RawBson::Double(self.binary.to_double()),
        }
    }

    /// The sum divided by how many numbers there were.
    pub(crate) fn mean(&self, count: i64) -> RawBson {
        if self.kind == Kind::Decimal {
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

impl Accumulator for Sum {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if let Some(number) = value.number() {
            Sum::add(self, number);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        Some(self.total())
    }
}
