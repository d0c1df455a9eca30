//! `$addToSet`: the distinct values as an array, in no particular order.
//!
//! ```text
//! { "$addToSet": "$a" }
//! in:  { "a": 1 }
//! in:  { "a": 1.0 }
//! in:  {}
//! in:  { "a": "x" }
//! out: [1, "x"]
//! ```

use std::collections::HashSet;

use bson::{RawArrayBuf, RawBson, RawDocument};

use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::Result;
use crate::collation::ValueOrder;
use crate::direction::Direction;
use crate::expression::Value;
use crate::key::value::encode_collated;

#[derive(Default)]
struct AddToSetAccumulator {
    /// The encoded keys of the values. Equal values share a key.
    keys: HashSet<Vec<u8>>,
    key_bytes: usize,
    values: RawArrayBuf,
    order: ValueOrder,
}

pub(super) fn parse_add_to_set(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    let order = call.environment.order().clone();
    call.unary_accumulator(move || AddToSetAccumulator {
        order: order.clone(),
        ..AddToSetAccumulator::default()
    })
}

impl Accumulator for AddToSetAccumulator {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        let Some(value) = value.as_bson() else {
            return Ok(());
        };
        let mut key = Vec::new();
        encode_collated(value, Direction::Ascending, self.order.collator(), &mut key)?;
        let bytes = key.len();
        if self.keys.insert(key) {
            self.key_bytes += bytes;
            self.values.push(value);
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        Some(self.values.into())
    }

    fn held_bytes(&self) -> usize {
        self.key_bytes + self.values.as_bytes().len()
    }
}
