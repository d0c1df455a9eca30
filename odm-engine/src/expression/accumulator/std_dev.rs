//! `$stdDevPop`, `$stdDevSamp`: how far numbers are from their mean, if they are all there are, or a sample.
//!
//! ```text
//! { "$stdDevPop": [1, "x", 3] } → 1.0
//! { "$stdDevSamp": [1] } → null
//! ```

use super::accumulate;
use crate::Result;
use crate::accumulator::StdDev;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse_pop(call: &Call<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate(operands, StdDev::new(false)))
}

pub(super) fn parse_samp(call: &Call<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate(operands, StdDev::new(true)))
}
