//! `$last`, `$lastN`: the value of the last document, or of the last `n`.
//!
//! ```text
//! { "$last": "$a" }
//! in:  { "a": 1 }
//! in:  { "a": 2 }
//! out: 2
//!
//! { "$lastN": { "input": "$a", "n": 2 } }
//! in:  { "a": 1 }
//! in:  {}
//! in:  { "a": 2 }
//! out: [null, 2]
//! ```

use bson::{RawBson, RawDocument};

use super::keep_n::{self, KeepRule};
use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::Result;
use crate::expression::Value;

#[derive(Default)]
struct LastAccumulator(Option<RawBson>);

pub(super) fn parse_last(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    call.unary_accumulator(LastAccumulator::default)
}

pub(super) fn parse_last_n(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    keep_n::parse_keep_n(call, KeepRule::Last)
}

impl Accumulator for LastAccumulator {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        self.0 = value.into_bson();
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        self.0
    }
}
