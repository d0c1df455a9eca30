//! `$sum`: the sum of the numbers. Other values are ignored.
//!
//! ```text
//! { "$sum": [1, "x", 2.5] } → 3.5
//! { "$sum": [[1, 2]] } → 3
//! { "$sum": "x" } → 0
//! ```

use super::accumulate_operands;
use crate::Result;
use crate::accumulator::SumAccumulator;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_sum(call: &OperatorCall<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate_operands(operands, SumAccumulator::default()))
}
