//! `$not`: the negation of a truth value.
//!
//! ```text
//! { "$not": [0] } → true
//! { "$not": "x" } → false
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_not(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| Ok((!value.is_truthy()).into()))
}
