//! `$range`: the numbers from a start to an excluded end. The step is 1 or the third operand.
//!
//! ```text
//! { "$range": [0, 3] } → [0, 1, 2]
//! { "$range": [5, 0, -2] } → [5, 3, 1]
//! { "$range": [0, 3, -1] } → []
//! ```

use bson::RawArrayBuf;

use crate::error::code;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

/// The maximum number of elements, which follows from MongoDB's memory limit.
const MAX_RANGE_ELEMENTS: u64 = 6_553_597;

pub(super) fn parse_range(call: &OperatorCall<'_>) -> Result<Expression> {
    call.bounded_variadic(2..=3, build_range)
}

fn build_range(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [first, last, step @ ..] = operands.as_slice() else {
        return Ok(Value::NULL);
    };
    let first = read_bound("first", first, 34443, 34444)?;
    let last = read_bound("last", last, 34445, 34446)?;
    let step = match step.first() {
        Some(step) => read_bound("step", step, 34447, 34448)?,
        None => 1,
    };
    if step == 0 {
        return Err(Error::with_server_code(
            34449,
            "the step of $range must not be zero",
        ));
    }
    let distance = if step > 0 { last - first } else { first - last };
    let steps = u64::try_from(distance).unwrap_or(0);
    let count = steps.div_ceil(step.unsigned_abs());
    if count > MAX_RANGE_ELEMENTS {
        let message =
            format!("$range would return {count} numbers, which exceeds the memory limit");
        return Err(Error::with_server_code(
            code::EXCEEDED_MEMORY_LIMIT,
            message,
        ));
    }
    let mut numbers = RawArrayBuf::new();
    let mut number = first;
    for _ in 0..count {
        // All numbers lie between the 32-bit bounds.
        numbers.push(i32::try_from(number).unwrap_or_default());
        number += step;
    }
    Ok(numbers.into())
}

fn read_bound(role: &str, value: &Value<'_>, no_number: i32, too_long: i32) -> Result<i64> {
    if value.as_number().is_none() {
        let type_name = value.type_name();
        let message = format!("the {role} operand of $range must be a number, not {type_name}");
        return Err(Error::with_server_code(no_number, message));
    }
    let integer = value.as_int32().ok_or_else(|| {
        let message = format!("the {role} operand of $range must be a whole number of 32 bits");
        Error::with_server_code(too_long, message)
    })?;
    Ok(integer.into())
}
