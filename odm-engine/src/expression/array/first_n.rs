//! `$firstN`, `$lastN`: up to `n` elements from the start or the end of an array.
//!
//! ```text
//! { "$firstN": { "input": [1, 2, 3], "n": 2 } } → [1, 2]
//! { "$lastN": { "input": [1, 2, 3], "n": 2 } } → [2, 3]
//! { "$firstN": { "input": [null], "n": 5 } } → [null]
//! ```

use super::max_n::{Selection, parse_select_n};
use crate::Result;
use crate::collation::ValueOrder;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_first(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_select_n(call, 5787801, keep_first)
}

pub(super) fn parse_last(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_select_n(call, 5787801, keep_last)
}

fn keep_first(items: &mut Selection<'_>, n: usize, _: &ValueOrder) {
    items.truncate(n);
}

fn keep_last(items: &mut Selection<'_>, n: usize, _: &ValueOrder) {
    items.drain(..items.len().saturating_sub(n));
}
