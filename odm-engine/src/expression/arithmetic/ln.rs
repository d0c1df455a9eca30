//! `$ln`, `$log10`: the natural and the decimal logarithm of a positive number.
//!
//! ```text
//! { "$ln": 1 } → 0.0
//! { "$log10": 1000 } → 3.0
//! { "$log10": { "$numberDecimal": "0.001" } } → { "$numberDecimal": "-3" }
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::numeric::apply_to_number;
use crate::expression::{Expression, Value};
use crate::value::{DecimalFunction, Number};
use crate::{Error, Result};

pub(super) fn parse_ln(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_to_number("$ln", &value, |number| {
            logarithm(number, "$ln", 28766, f64::ln, DecimalFunction::Ln)
        })
    })
}

pub(super) fn parse_log10(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_to_number("$log10", &value, |number| {
            logarithm(number, "$log10", 28761, f64::log10, DecimalFunction::Log10)
        })
    })
}

fn logarithm(
    number: Number,
    name: &str,
    code: i32,
    double: fn(f64) -> f64,
    decimal: DecimalFunction,
) -> Result<Value<'static>> {
    if number.is_nan() {
        return Ok(f64::NAN.into());
    }
    if number.compare(Number::Int32(0)).is_le() {
        let message = format!("the operand of {name} must be a positive number");
        return Err(Error::with_server_code(code, message));
    }
    Ok(match number {
        Number::Decimal(number) => Number::Decimal(number.apply_function(decimal)).into(),
        number => double(number.to_double()).into(),
    })
}
