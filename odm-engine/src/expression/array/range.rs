//! `$range`: the numbers from a first up to, but without, a last one, in steps of one or of the
//! third operand.
//!
//! ```text
//! { "$range": [0, 3] } → [0, 1, 2]
//! { "$range": [5, 0, -2] } → [5, 3, 1]
//! { "$range": [0, 3, -1] } → []
//! ```

use bson::RawArrayBuf;

use crate::error::code;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

/// How many numbers MongoDB has room for.
const MAX_COUNT: u64 = 6_553_597;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.ranged(2..=3, range)
}

fn range(operands: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [first, last, step @ ..] = operands.as_slice() else {
        return Ok(Value::NULL);
    };
    let first = bound("first", first, 34443, 34444)?;
    let last = bound("last", last, 34445, 34446)?;
    let step = match step.first() {
        Some(step) => bound("step", step, 34447, 34448)?,
        None => 1,
    };
    if step == 0 {
        return Err(Error::server(34449, "the step of $range is not zero"));
    }
    let distance = if step > 0 { last - first } else { first - last };
    let steps = u64::try_from(distance).unwrap_or(0);
    let count = steps.div_ceil(step.unsigned_abs());
    if count > MAX_COUNT {
        let message = format!("$range would give {count} numbers, which is too much memory");
        return Err(Error::server(code::EXCEEDED_MEMORY_LIMIT, message));
    }
    let mut numbers = RawArrayBuf::new();
    let mut number = first;
    for _ in 0..count {
        // All of them lie between two numbers of 32 bits.
        numbers.push(i32::try_from(number).unwrap_or_default());
        number += step;
    }
    Ok(numbers.into())
}

fn bound(role: &str, value: &Value<'_>, no_number: i32, too_long: i32) -> Result<i64> {
    if value.number().is_none() {
        let found = value.type_name();
        let message = format!("the {role} number of $range is {found}");
        return Err(Error::server(no_number, message));
    }
    let whole = value.int32().ok_or_else(|| {
        let message = format!("the {role} number of $range is a whole one of 32 bits");
        Error::server(too_long, message)
    })?;
    Ok(whole.into())
}
