//! `$last`, `$lastN`: of the last document, or of the last few.
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

use super::several::{self, Keep};
use super::{Accumulation, Accumulator, Call};
use crate::Result;
use crate::expression::Value;

#[derive(Default)]
struct Last(Option<RawBson>);

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    call.unary(Last::default)
}

pub(super) fn parse_several(call: &Call<'_>) -> Result<Accumulation> {
    several::parse(call, Keep::Last)
}

impl Accumulator for Last {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        self.0 = value.into_bson();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        self.0
    }
}
