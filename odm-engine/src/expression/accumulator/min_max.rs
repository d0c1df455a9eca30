//! `$min`, `$max`: the smallest and the largest value. Null and missing do not count.
//!
//! ```text
//! { "$min": [3, null, 1] } → 1
//! { "$max": [[3, "x"]] } → "x"
//! { "$max": null } → null
//! ```

use super::accumulate;
use crate::Result;
use crate::accumulator::MinMax;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse_min(call: &Call<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate(operands, MinMax::min()))
}

pub(super) fn parse_max(call: &Call<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate(operands, MinMax::max()))
}
