//! `$avg`: the mean of the numbers. Other values are ignored.
//!
//! ```text
//! { "$avg": [1, "x", 4] } → 2.5
//! { "$avg": [] } → null
//! ```

use super::accumulate_operands;
use crate::Result;
use crate::accumulator::Avg;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_avg(call: &OperatorCall<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate_operands(operands, Avg::default()))
}
