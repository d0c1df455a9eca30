//! `$min`, `$max`: the smallest and the largest value. Null and missing values are ignored.
//!
//! ```text
//! { "$min": [3, null, 1] } → 1
//! { "$max": [[3, "x"]] } → "x"
//! { "$max": null } → null
//! ```

use super::accumulate_operands;
use crate::Result;
use crate::accumulator::MinMax;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_min(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_variadic(|order, operands| accumulate_operands(operands, MinMax::min(order)))
}

pub(super) fn parse_max(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_variadic(|order, operands| accumulate_operands(operands, MinMax::max(order)))
}
