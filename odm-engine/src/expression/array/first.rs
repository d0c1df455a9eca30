//! `$first`, `$last`: the first or last element of an array. An empty array gives the missing
//! value.
//!
//! ```text
//! { "$first": [[1, 2, 3]] } → 1
//! { "$last": [[1, 2, 3]] } → 3
//! { "$first": [[]] } → missing
//! { "$last": null } → null
//! ```

use super::array_elem_at::element_at;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_first(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|array| end_element("$first", array, 0))
}

pub(super) fn parse_last(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|array| end_element("$last", array, -1))
}

fn end_element<'v>(name: &str, array: Value<'v>, position: i32) -> Result<Value<'v>> {
    if array.is_nullish() {
        return Ok(Value::NULL);
    }
    if array.as_array().is_none() {
        let type_name = array.type_name();
        let message = format!("{name} takes an array, not {type_name}");
        return Err(Error::with_server_code(28689, message));
    }
    Ok(element_at(array, position))
}
