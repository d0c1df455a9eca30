//! `$in`: whether a value is an element of an array.
//!
//! ```text
//! { "$in": [2, [1, 2, 3]] } → true
//! { "$in": ["x", []] } → false
//! ```

use crate::collation::ValueOrder;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_in(call: &OperatorCall<'_>) -> Result<Expression> {
    call.ordered_binary(is_in)
}

fn is_in<'v>(order: &ValueOrder, element: Value<'v>, array: Value<'v>) -> Result<Value<'v>> {
    let items = array.as_array().ok_or_else(|| {
        let type_name = array.type_name();
        let message = format!("the second operand of $in must be an array, not {type_name}");
        Error::with_server_code(40081, message)
    })?;
    let is_found =
        value::items(items).any(|item| Value::from(item).compare(&element, order).is_eq());
    Ok(is_found.into())
}
