//! `$allElementsTrue`: whether all elements of an array are true.
//!
//! ```text
//! { "$allElementsTrue": [[true, 1, "x"]] } → true
//! { "$allElementsTrue": [[true, 0]] } → false
//! { "$allElementsTrue": [[]] } → true
//! ```

use super::elements::require_array;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Result, value};

pub(super) fn parse_all_elements_true(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(all_elements_true)
}

fn all_elements_true(set: Value<'_>) -> Result<Value<'_>> {
    let set = require_array("$allElementsTrue", &set, 17040)?;
    Ok(value::items(set).all(value::is_truthy).into())
}
