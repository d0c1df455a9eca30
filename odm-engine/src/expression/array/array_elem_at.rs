//! `$arrayElemAt`: the element at a position, which counts from the end if it is negative. Beyond
//! the array nothing is there.
//!
//! ```text
//! { "$arrayElemAt": [[1, 2, 3], 0] } → 1
//! { "$arrayElemAt": [[1, 2, 3], -1] } → 3
//! { "$arrayElemAt": [[1, 2, 3], 3] } → missing
//! { "$arrayElemAt": [null, 0] } → null
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.binary(at)
}

fn at<'v>(array: Value<'v>, position: Value<'v>) -> Result<Value<'v>> {
    if array.is_nullish() || position.is_nullish() {
        return Ok(Value::NULL);
    }
    if array.array().is_none() {
        let found = array.type_name();
        let message = format!("the first operand of $arrayElemAt is an array, not {found}");
        return Err(Error::server(28689, message));
    }
    if position.number().is_none() {
        let found = position.type_name();
        let message = format!("the second operand of $arrayElemAt is a number, not {found}");
        return Err(Error::server(28690, message));
    }
    let position = position.int32().ok_or_else(|| {
        let message = "the second operand of $arrayElemAt is a whole number of 32 bits";
        Error::server(28691, message)
    })?;
    Ok(element(array, position))
}

/// The element of an array at a position, which counts from the end if it is negative.
pub(super) fn element(array: Value<'_>, position: i32) -> Value<'_> {
    array.part(|array| {
        let array = array.as_array()?;
        let distance = usize::try_from(position.unsigned_abs()).ok()?;
        let index = match position {
            0.. => distance,
            _ => value::items(array).count().checked_sub(distance)?,
        };
        value::items(array).nth(index)
    })
}
