//! `$slice`: some first elements of an array, or last ones if their number is negative, or those
//! from a position on, which counts from the end if it is negative.
//!
//! ```text
//! { "$slice": [[1, 2, 3], 2] } → [1, 2]
//! { "$slice": [[1, 2, 3], -2] } → [2, 3]
//! { "$slice": [[1, 2, 3], 1, 5] } → [2, 3]
//! { "$slice": [[1, 2, 3], -2, 1] } → [2]
//! { "$slice": [null, 1] } → null
//! ```

use bson::RawArrayBuf;

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.ranged(2..=3, slice)
}

fn slice(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [array, place, count @ ..] = operands.as_slice() else {
        return Ok(Value::NULL);
    };
    if array.is_nullish() || place.is_nullish() {
        return Ok(Value::NULL);
    }
    let items = array.array().ok_or_else(|| {
        let found = array.type_name();
        let message = format!("the first operand of $slice is an array, not {found}");
        Error::server(28724, message)
    })?;
    let place = whole("second", place, 28725, 28726)?;
    let length = value::items(items).count();
    let distance = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
    let from_end = length.saturating_sub(distance);
    let (skip, take) = match count.first() {
        None if place < 0 => (from_end, length),
        None => (0, distance),
        Some(count) if count.is_nullish() => return Ok(Value::NULL),
        Some(count) => {
            let count = whole("third", count, 28727, 28728)?;
            let count = usize::try_from(count).ok().filter(|count| *count > 0);
            let count = count.ok_or_else(|| {
                let message = "the third operand of $slice is greater than zero";
                Error::server(28729, message)
            })?;
            (if place < 0 { from_end } else { distance }, count)
        }
    };
    let kept = value::items(items).skip(skip).take(take);
    Ok(kept.collect::<RawArrayBuf>().into())
}

fn whole(which: &str, value: &Value<'_>, no_number: i32, too_long: i32) -> Result<i32> {
    if value.number().is_none() {
        let found = value.type_name();
        let message = format!("the {which} operand of $slice is a number, not {found}");
        return Err(Error::server(no_number, message));
    }
    value.int32().ok_or_else(|| {
        let message = format!("the {which} operand of $slice is a whole number of 32 bits");
        Error::server(too_long, message)
    })
}
