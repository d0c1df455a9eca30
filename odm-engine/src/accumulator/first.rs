//! `$first`, `$firstN`: the value of the first document, or of the first `n`.
//!
//! ```text
//! { "$first": "$a" }
//! in:  { "a": 1 }
//! in:  { "a": 2 }
//! out: 1
//!
//! { "$firstN": { "input": "$a", "n": 2 } }
//! in:  { "a": 1 }
//! in:  {}
//! in:  { "a": 2 }
//! out: [1, null]
//! ```

use bson::{RawBson, RawDocument};

use super::keep_n::{self, KeepRule};
use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::Result;
use crate::expression::Value;

#[derive(Default)]
struct FirstAccumulator(Option<Option<RawBson>>);

pub(super) fn parse_first(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    call.unary_accumulator(FirstAccumulator::default)
}

pub(super) fn parse_first_n(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    keep_n::parse_keep_n(call, KeepRule::First)
}

impl Accumulator for FirstAccumulator {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if self.0.is_none() {
            self.0 = Some(value.into_bson());
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        self.0.flatten()
    }
}
