//! `$push`: all values, as an array.
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

use super::{Accumulation, Accumulator, Call};
use crate::Result;
use crate::expression::Value;

#[derive(Default)]
struct Push(RawArrayBuf);

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    call.unary(Push::default)
}

impl Accumulator for Push {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if let Some(value) = value.as_bson() {
            self.0.push(value);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        Some(self.0.into())
    }

    fn bytes(&self) -> usize {
        self.0.as_bytes().len()
    }
}
