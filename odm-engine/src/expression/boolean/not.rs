//! `$not`: the opposite.
//!
//! ```text
//! { "$not": [0] } → true
//! { "$not": "x" } → false
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::Call;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| Ok((!value.is_truthy()).into()))
}
