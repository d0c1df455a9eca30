//! `$isArray`: whether a value is an array.
//!
//! ```text
//! { "$isArray": [[1, 2]] } → true
//! { "$isArray": ["x"] } → false
//! ```

use crate::Result;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};

pub(super) fn parse_is_array(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(is_array)
}

fn is_array(value: Value<'_>) -> Result<Value<'_>> {
    Ok(value.as_array().is_some().into())
}
