//! `$stdDevPop`, `$stdDevSamp`: the standard deviation of a population or of a sample.
//!
//! ```text
//! { "$stdDevPop": [1, "x", 3] } → 1.0
//! { "$stdDevSamp": [1] } → null
//! ```

use super::accumulate_operands;
use crate::Result;
use crate::accumulator::StdDev;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_pop(call: &OperatorCall<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate_operands(operands, StdDev::new(false)))
}

pub(super) fn parse_samp(call: &OperatorCall<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate_operands(operands, StdDev::new(true)))
}
