//! `$mod`: the remainder of a division, with the sign of the dividend.
//!
//! ```text
//! { "$mod": [7, 3] } → 1
//! { "$mod": [-7.5, 2] } → -1.5
//! { "$mod": [{ "$numberDecimal": "7.50" }, 2] } → { "$numberDecimal": "1.50" }
//! { "$mod": [null, 2] } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_mod(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(modulo)
}

fn modulo<'v>(dividend: Value<'v>, divisor: Value<'v>) -> Result<Value<'v>> {
    let (Some(a), Some(b)) = (dividend.as_number(), divisor.as_number()) else {
        if dividend.is_nullish() || divisor.is_nullish() {
            return Ok(Value::NULL);
        }
        let (a, b) = (dividend.type_name(), divisor.type_name());
        let message = format!("$mod takes numbers, not {a} and {b}");
        return Err(Error::with_server_code(16611, message));
    };
    let is_decimal = matches!((a, b), (Number::Decimal(_), _) | (_, Number::Decimal(_)));
    if b.is_zero() {
        let code = if is_decimal { 5_733_415 } else { 16610 };
        return Err(Error::with_server_code(code, "$mod cannot divide by zero"));
    }
    if is_decimal {
        return Ok(Number::Decimal(a.to_decimal().remainder(b.to_decimal())).into());
    }
    // A whole double may divide an integer if the double fits into 32 bits.
    let (Some(x), Some(y)) = (as_integer(a), as_integer(b).or_else(|| as_small_integer(b))) else {
        return Ok((a.to_double() % b.to_double()).into());
    };
    let remainder = x.wrapping_rem(y);
    Ok(match (a, b, i32::try_from(remainder)) {
        (Number::Int64(_), ..) | (_, Number::Int64(_), _) | (.., Err(_)) => remainder.into(),
        (.., Ok(remainder)) => remainder.into(),
    })
}

fn as_integer(number: Number) -> Option<i64> {
    match number {
        Number::Int32(number) => Some(number.into()),
        Number::Int64(number) => Some(number),
        Number::Double(_) | Number::Decimal(_) => None,
    }
}

fn as_small_integer(number: Number) -> Option<i64> {
    number
        .whole_long()
        .filter(|integer| i32::try_from(*integer).is_ok())
}
