//! `$slice`: a part of an array. Two operands take elements from the start, or from the end if the
//! number is negative.
//!
//! Three operands give a position and a count. A negative position counts from the end.
//!
//! ```text
//! { "$slice": [[1, 2, 3], 2] } → [1, 2]
//! { "$slice": [[1, 2, 3], -2] } → [2, 3]
//! { "$slice": [[1, 2, 3], 1, 5] } → [2, 3]
//! { "$slice": [[1, 2, 3], -2, 1] } → [2]
//! { "$slice": [null, 1] } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse_slice(call: &OperatorCall<'_>) -> Result<Expression> {
    call.bounded_variadic(2..=3, slice_array)
}

fn slice_array(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [array, place, count @ ..] = operands.as_slice() else {
        return Ok(Value::NULL);
    };
    if array.is_nullish() || place.is_nullish() {
        return Ok(Value::NULL);
    }
    let items = array.as_array().ok_or_else(|| {
        let type_name = array.type_name();
        let message = format!("the first operand of $slice must be an array, not {type_name}");
        Error::with_server_code(28724, message)
    })?;
    let place = read_integer("second", place, 28725, 28726)?;
    let length = value::items(items).count();
    let distance = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
    let from_end = length.saturating_sub(distance);
    let (skip, take) = match count.first() {
        None if place < 0 => (from_end, length),
        None => (0, distance),
        Some(count) if count.is_nullish() => return Ok(Value::NULL),
        Some(count) => {
            let count = read_integer("third", count, 28727, 28728)?;
            let count = usize::try_from(count).ok().filter(|count| *count > 0);
            let count = count.ok_or_else(|| {
                let message = "the third operand of $slice must be greater than zero";
                Error::with_server_code(28729, message)
            })?;
            (if place < 0 { from_end } else { distance }, count)
        }
    };
    let kept = value::items(items).skip(skip).take(take);
    Ok(kept.collect::<RawArrayBuf>().into())
}

fn read_integer(ordinal: &str, value: &Value<'_>, no_number: i32, too_long: i32) -> Result<i32> {
    if value.as_number().is_none() {
        let type_name = value.type_name();
        let message = format!("the {ordinal} operand of $slice must be a number, not {type_name}");
        return Err(Error::with_server_code(no_number, message));
    }
    value.as_int32().ok_or_else(|| {
        let message = format!("the {ordinal} operand of $slice must be a whole number of 32 bits");
        Error::with_server_code(too_long, message)
    })
}
