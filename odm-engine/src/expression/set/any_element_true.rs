//! `$anyElementTrue`: whether any element of an array is true.
//!
//! ```text
//! { "$anyElementTrue": [[false, 1]] } → true
//! { "$anyElementTrue": [[null, 0]] } → false
//! { "$anyElementTrue": [[]] } → false
//! ```

use super::elements::require_array;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse_any_element_true(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(any_element_true)
}

fn any_element_true(set: Value<'_>) -> Result<Value<'_>> {
    let set = require_array("$anyElementTrue", &set, 17041)?;
    Ok(value::items(set).any(value::is_truthy).into())
}
