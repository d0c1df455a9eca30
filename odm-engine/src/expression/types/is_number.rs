//! `$isNumber`: whether a value is a number of any type.
//!
//! ```text
//! { "$isNumber": { "$numberDecimal": "NaN" } } → true
//! { "$isNumber": "1" } → false
//! ```

use crate::Result;
use crate::expression::Expression;
use crate::expression::call::OperatorCall;

pub(super) fn parse_is_number(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| Ok(value.as_number().is_some().into()))
}
