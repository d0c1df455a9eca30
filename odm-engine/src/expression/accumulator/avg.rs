//! `$avg`: the mean of numbers. What is no number does not count.
//!
//! ```text
//! { "$avg": [1, "x", 4] } → 2.5
//! { "$avg": [] } → null
//! ```

use super::accumulate;
use crate::Result;
use crate::accumulator::Avg;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate(operands, Avg::default()))
}
