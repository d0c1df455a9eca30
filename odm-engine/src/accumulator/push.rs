//! `$push`: all values as an array.
//!
//! ```text
//! { "$push": "$a" }
//! in:  { "a": 1 }
//! in:  {}
//! in:  { "a": null }
//! in:  { "a": 1 }
//! out: [1, null, 1]
//! ```

use bson::{RawArrayBuf, RawBson, RawDocument};

use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::Result;
use crate::expression::Value;

#[derive(Default)]
struct PushAccumulator(RawArrayBuf);

pub(super) fn parse_push(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    call.unary_accumulator(PushAccumulator::default)
}

impl Accumulator for PushAccumulator {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if let Some(value) = value.as_bson() {
            self.0.push(value);
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        Some(self.0.into())
    }

    fn held_bytes(&self) -> usize {
        self.0.as_bytes().len()
    }
}
