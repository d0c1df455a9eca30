//! `$arrayElemAt`: the element at a position. A negative position counts from the end. A position
//! beyond the array gives the missing value.
//!
//! ```text
//! { "$arrayElemAt": [[1, 2, 3], 0] } → 1
//! { "$arrayElemAt": [[1, 2, 3], -1] } → 3
//! { "$arrayElemAt": [[1, 2, 3], 3] } → missing
//! { "$arrayElemAt": [null, 0] } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_array_elem_at(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(array_elem_at)
}

fn array_elem_at<'v>(array: Value<'v>, position: Value<'v>) -> Result<Value<'v>> {
    if array.is_nullish() || position.is_nullish() {
        return Ok(Value::NULL);
    }
    if array.as_array().is_none() {
        let type_name = array.type_name();
        let message =
            format!("the first operand of $arrayElemAt must be an array, not {type_name}");
        return Err(Error::with_server_code(28689, message));
    }
    if position.as_number().is_none() {
        let type_name = position.type_name();
        let message =
            format!("the second operand of $arrayElemAt must be a number, not {type_name}");
        return Err(Error::with_server_code(28690, message));
    }
    let position = position.as_int32().ok_or_else(|| {
        let message = "the second operand of $arrayElemAt must be a whole number of 32 bits";
        Error::with_server_code(28691, message)
    })?;
    Ok(element_at(array, position))
}

/// Returns the array element at a position. A negative position counts from the end.
pub(super) fn element_at(array: Value<'_>, position: i32) -> Value<'_> {
    array.map_part(|array| {
        let array = array.as_array()?;
        let distance = usize::try_from(position.unsigned_abs()).ok()?;
        let index = match position {
            0.. => distance,
            _ => value::items(array).count().checked_sub(distance)?,
        };
        value::items(array).nth(index)
    })
}
