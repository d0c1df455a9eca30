//! `$sum`: numbers added up. What is no number does not count.
//!
//! ```text
//! { "$sum": [1, "x", 2.5] } → 3.5
//! { "$sum": [[1, 2]] } → 3
//! { "$sum": "x" } → 0
//! ```

use super::accumulate;
use crate::Result;
use crate::accumulator::Sum;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.variadic(|operands| accumulate(operands, Sum::default()))
}
