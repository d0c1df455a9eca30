//! `$avg`: the mean of numbers. What is no number does not count.
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

use super::{Accumulation, Accumulator, Call, Sum};
use crate::Result;
use crate::expression::Value;

/// A mean of numbers of all types.
#[derive(Debug, Clone, Default)]
pub(crate) struct Avg {
    sum: Sum,
    count: i64,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    call.unary(Avg::default)
}

impl Accumulator for Avg {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if let Some(number) = value.number() {
            self.sum.add(number);
            self.count += 1;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        Some(match self.count {
            0 => RawBson::Null,
            count => self.sum.mean(count),
        })
    }
}
