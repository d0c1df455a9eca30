//! `$firstN`, `$lastN`: up to `n` elements at an end of an array.
//!
//! ```text
//! { "$firstN": { "input": [1, 2, 3], "n": 2 } } → [1, 2]
//! { "$lastN": { "input": [1, 2, 3], "n": 2 } } → [2, 3]
//! { "$firstN": { "input": [null], "n": 5 } } → [null]
//! ```

use bson::RawBsonRef;

use super::max_n::{Selection, parse};
use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse_first(call: &Call<'_>) -> Result<Expression> {
    parse(call, 5787801, first)
}

pub(super) fn parse_last(call: &Call<'_>) -> Result<Expression> {
    parse(call, 5787801, last)
}

fn first(items: &mut Selection<'_>, n: usize) {
    items.truncate(n);
}

fn last(items: &mut Vec<RawBsonRef<'_>>, n: usize) {
    items.drain(..items.len().saturating_sub(n));
}
