//! `$mod`: what a division leaves, with the sign of the dividend.
//!
//! ```text
//! { "$mod": [7, 3] } → 1
//! { "$mod": [-7.5, 2] } → -1.5
//! { "$mod": [{ "$numberDecimal": "7.50" }, 2] } → { "$numberDecimal": "1.50" }
//! { "$mod": [null, 2] } → null
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.binary(modulo)
}

fn modulo<'v>(dividend: Value<'v>, divisor: Value<'v>) -> Result<Value<'v>> {
    let (Some(a), Some(b)) = (dividend.number(), divisor.number()) else {
        if dividend.is_nullish() || divisor.is_nullish() {
            return Ok(Value::NULL);
        }
        let (a, b) = (dividend.type_name(), divisor.type_name());
        let message = format!("$mod takes numbers, not {a} and {b}");
        return Err(Error::server(16611, message));
    };
    let is_decimal = matches!((a, b), (Number::Decimal(_), _) | (_, Number::Decimal(_)));
    if b.is_zero() {
        let code = if is_decimal { 5_733_415 } else { 16610 };
        return Err(Error::server(code, "$mod cannot divide by zero"));
    }
    if is_decimal {
        return Ok(Number::Decimal(a.to_decimal().remainder(b.to_decimal())).into());
    }
    // A whole double may be the divisor of an integer, if it is small enough for an int.
    let (Some(x), Some(y)) = (integer(a), integer(b).or_else(|| small(b))) else {
        return Ok((a.to_double() % b.to_double()).into());
    };
    let left = x.wrapping_rem(y);
    Ok(match (a, b, i32::try_from(left)) {
        (Number::Int64(_), ..) | (_, Number::Int64(_), _) | (.., Err(_)) => left.into(),
        (.., Ok(left)) => left.into(),
    })
}

fn integer(number: Number) -> Option<i64> {
    match number {
        Number::Int32(number) => Some(number.into()),
        Number::Int64(number) => Some(number),
        Number::Double(_) | Number::Decimal(_) => None,
    }
}

fn small(number: Number) -> Option<i64> {
    number.whole().filter(|whole| i32::try_from(*whole).is_ok())
}
