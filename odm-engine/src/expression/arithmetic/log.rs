//! `$log`: the logarithm of a number to a base.
//!
//! ```text
//! { "$log": [8, 2] } → 3.0
//! { "$log": [{ "$numberDecimal": "100" }, 10] } → { "$numberDecimal": "2" }
//! { "$log": [null, 2] } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_log(call: &OperatorCall<'_>) -> Result<Expression> {
    call.binary(log)
}

fn log<'v>(argument: Value<'v>, base: Value<'v>) -> Result<Value<'v>> {
    if argument.is_nullish() || base.is_nullish() {
        return Ok(Value::NULL);
    }
    let number = |value: &Value<'_>, code, role| {
        value.as_number().ok_or_else(|| {
            let message = format!(
                "the {role} of $log must be a number, not {}",
                value.type_name()
            );
            Error::with_server_code(code, message)
        })
    };
    let argument = number(&argument, 28756, "argument")?;
    let base = number(&base, 28757, "base")?;
    let is_above = |number: Number, limit| number.compare(Number::Int32(limit)).is_gt();
    if !argument.is_nan() && !is_above(argument, 0) {
        return Err(Error::with_server_code(
            28758,
            "the argument of $log must be a positive number",
        ));
    }
    if !base.is_nan() && (!is_above(base, 0) || base.compare(Number::Int32(1)).is_eq()) {
        return Err(Error::with_server_code(
            28759,
            "the base of $log must be a positive number other than 1",
        ));
    }
    Ok(match (argument, base) {
        (a, b) if a.is_nan() || b.is_nan() => f64::NAN.into(),
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(argument.to_decimal().logarithm(base.to_decimal())).into()
        }
        _ => (argument.to_double().ln() / base.to_double().ln()).into(),
    })
}
