//! `$pow`: a number raised to a power.
//!
//! ```text
//! { "$pow": [2, 3] } → 8
//! { "$pow": [2, -1] } → 0.5
//! { "$pow": [2, 62] } → { "$numberLong": "4611686018427387904" }
//! { "$pow": [null, 2] } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::numeric::int_or_long;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_pow(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(pow)
}

fn pow<'v>(base: Value<'v>, exponent: Value<'v>) -> Result<Value<'v>> {
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Value::NULL);
    }
    let number = |value: &Value<'_>, code, role| {
        value.as_number().ok_or_else(|| {
            let message = format!(
                "the {role} of $pow must be a number, not {}",
                value.type_name()
            );
            Error::with_server_code(code, message)
        })
    };
    let base = number(&base, 28762, "base")?;
    let exponent = number(&exponent, 28763, "exponent")?;
    let is_negative = !exponent.is_nan() && exponent.compare(Number::Int32(0)).is_lt();
    if base.is_zero() && is_negative {
        let message = "$pow cannot raise 0 to a negative power";
        return Err(Error::with_server_code(28764, message));
    }
    Ok(match (base, exponent) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(base.to_decimal().power(exponent.to_decimal())).into()
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => {
            base.to_double().powf(exponent.to_double()).into()
        }
        (a, b) => match a
            .whole_long()
            .zip(b.whole_long())
            .and_then(|(a, b)| checked_integer_power(a, b))
        {
            Some(power) if matches!((a, b), (Number::Int32(_), Number::Int32(_))) => {
                int_or_long(power)
            }
            Some(power) => power.into(),
            None => a.to_double().powf(b.to_double()).into(),
        },
    })
}

/// Returns the power if the result is a whole number of 64 bits.
fn checked_integer_power(base: i64, exponent: i64) -> Option<i64> {
    match (base, u32::try_from(exponent)) {
        (1, _) => Some(1),
        (-1, _) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        (0, _) if exponent > 0 => Some(0),
        (base, Ok(exponent)) => base.checked_pow(exponent),
        _ => None,
    }
}
