//! `$min`, `$max`, `$minN`, `$maxN`: the smallest and the largest values. Null and missing do not count.
//!
//! ```text
//! { "$min": "$a" }
//! in:  { "a": 2 }
//! in:  { "a": null }
//! in:  { "a": 1 }
//! out: 1
//!
//! { "$max": "$a" }
//! in:  { "a": 2 }
//! in:  { "a": "x" }
//! out: "x"
//!
//! { "$minN": { "input": "$a", "n": 2 } }
//! in:  { "a": 3 }
//! in:  { "a": 1 }
//! in:  { "a": 2 }
//! out: [1, 2]
//!
//! { "$maxN": { "input": "$a", "n": 2 } }
//! in:  { "a": 3 }
//! in:  { "a": 1 }
//! in:  { "a": 2 }
//! out: [3, 2]
//! ```

use std::cmp::Ordering;

use bson::{RawBson, RawDocument};

use super::several::{self, Keep};
use super::{Accumulation, Accumulator, Call};
use crate::expression::Value;
use crate::{Result, value};

/// The smallest value so far, or the largest.
#[derive(Debug, Clone)]
pub(crate) struct MinMax {
    best: Option<RawBson>,
    /// How what is better compares with what is there.
    better: Ordering,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Accumulation> {
    let is_min = call.name == "$min";
    call.unary(move || if is_min { MinMax::min() } else { MinMax::max() })
}

pub(super) fn parse_several(call: &Call<'_>) -> Result<Accumulation> {
    let keep = match call.name {
        "$minN" => Keep::Smallest,
        _ => Keep::Largest,
    };
    several::parse(call, keep)
}

impl MinMax {
    pub(crate) fn min() -> MinMax {
        MinMax {
            best: None,
            better: Ordering::Less,
        }
    }

    pub(crate) fn max() -> MinMax {
        MinMax {
            best: None,
            better: Ordering::Greater,
        }
    }
}

impl Accumulator for MinMax {
    fn add(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        let is_better = self.best.as_ref().is_none_or(|best| {
            value::compare(value.or_null(), best.as_raw_bson_ref()) == self.better
        });
        if is_better {
            self.best = value.into_bson();
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Option<RawBson> {
        Some(self.best.unwrap_or(RawBson::Null))
    }
}
