//! `$first`, `$firstN`: of the first document, or of the first few.
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

use super::several::{self, Keep};
use super::{Accumulation, Accumulator, Call};
use crate::Result;
use crate::expression::Value;

#[derive(Default)]
struct First(Option<Option<RawBson>>);

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    call.unary(First::default)
}

pub(super) fn parse_several(call: &Call<'_>) -> Result<Accumulation> {
    several::parse(call, Keep::First)
}

impl Accumulator for First {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if self.0.is_none() {
            self.0 = Some(value.into_bson());
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        self.0.flatten()
    }
}
