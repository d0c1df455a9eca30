//! `$addToSet`: each value once, as an array in no particular order.
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

use super::{Accumulation, Accumulator, Call};
use crate::Result;
use crate::direction::Direction;
use crate::expression::Value;
use crate::key::value::encode;

#[derive(Default)]
struct AddToSet {
    /// What is in it already, as keys, which equal values share.
    keys: HashSet<Vec<u8>>,
    key_bytes: usize,
    values: RawArrayBuf,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    call.unary(AddToSet::default)
}

impl Accumulator for AddToSet {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        let Some(value) = value.as_bson() else {
            return Ok(());
        };
        let mut key = Vec::new();
        encode(value, Direction::Ascending, &mut key)?;
        let bytes = key.len();
        if self.keys.insert(key) {
            self.key_bytes += bytes;
            self.values.push(value);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        Some(self.values.into())
    }

    fn bytes(&self) -> usize {
        self.key_bytes + self.values.as_bytes().len()
    }
}
