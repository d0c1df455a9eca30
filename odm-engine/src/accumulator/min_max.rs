//! `$min`, `$max`, `$minN`, `$maxN`: the smallest and the largest values. Null and missing values
//! are ignored.
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

use super::keep_n::{self, KeepRule};
use super::{Accumulator, AccumulatorCall, AccumulatorSpec};
use crate::Result;
use crate::collation::ValueOrder;
use crate::expression::Value;

/// The smallest or the largest value so far.
#[derive(Debug, Clone)]
pub(crate) struct MinMax {
    best: Option<RawBson>,
    /// The order of a better value relative to the current best.
    better: Ordering,
    order: ValueOrder,
}

pub(super) fn parse_min_max(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    let is_min = call.name == "$min";
    let order = call.environment.order().clone();
    call.unary_accumulator(move || match is_min {
        true => MinMax::min(&order),
        false => MinMax::max(&order),
    })
}

pub(super) fn parse_min_max_n(call: &AccumulatorCall<'_>) -> Result<AccumulatorSpec> {
    let rule = match call.name {
        "$minN" => KeepRule::Smallest,
        _ => KeepRule::Largest,
    };
    keep_n::parse_keep_n(call, rule)
}

impl MinMax {
    pub(crate) fn min(order: &ValueOrder) -> MinMax {
        MinMax {
            best: None,
            better: Ordering::Less,
            order: order.clone(),
        }
    }

    pub(crate) fn max(order: &ValueOrder) -> MinMax {
        MinMax {
            best: None,
            better: Ordering::Greater,
            order: order.clone(),
        }
    }
}

impl Accumulator for MinMax {
    fn add_value(&mut self, value: Value<'_>, _: &RawDocument) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        let is_better = self.best.as_ref().is_none_or(|best| {
            let order = self.order.compare(value.or_null(), best.as_raw_bson_ref());
            order == self.better
        });
        if is_better {
            self.best = value.into_bson();
        }
        Ok(())
    }

    fn into_value(self: Box<Self>) -> Option<RawBson> {
        Some(self.best.unwrap_or(RawBson::Null))
    }
}
