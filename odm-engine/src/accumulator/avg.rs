//! `$avg`: the mean of the numbers. Other values are ignored.
//!
//! ```text
//! { "$avg": "$a" }
//! in:  { "a": 1 }
//! in:  { "a": "x" }
//! in:  { "a": 4 }
//! out: 2.5
//!
//! { "$avg": "$a" }
//! in:  { "a": "x" }
//! out: null
//! ```

use bson::{RawBson, RawDocument};

use super::{Accumulator, AccumulatorCall, AccumulatorSpec, SumAccumulator};
use crate::Result;
use crate::expression::Value;

/// A mean of numbers of all types.
#[derive(Debug, Clone, Default)]
pub(crate) struct Avg {
    sum: SumAccumulator,
    count: i64,
}

pub(super) fn parse_avg(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    call.unary_accumulator(Avg::default)
}

impl Accumulator for Avg {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if let Some(number) = value.as_number() {
            self.sum.add_number(number);
            self.count += 1;
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        Some(match self.count {
            0 => RawBson::Null,
            count => self.sum.to_mean(count),
        })
    }
}
