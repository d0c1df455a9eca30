//! `$ln`, `$log10`: the natural logarithm of a number above zero, and the one to the base 10.
//!
//! ```text
//! { "$ln": 1 } → 0.0
//! { "$log10": 1000 } → 3.0
//! { "$log10": { "$numberDecimal": "0.001" } } → { "$numberDecimal": "-3" }
//! ```

use crate::expression::call::Call;
use crate::expression::numeric::numeric;
use crate::expression::{Expression, Value};
use crate::value::{Function, Number};
use crate::{Error, Result};

pub(super) fn parse_ln(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| {
        numeric("$ln", &value, |number| {
            logarithm(number, "$ln", 28766, f64::ln, Function::Ln)
        })
    })
}

pub(super) fn parse_log10(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| {
        numeric("$log10", &value, |number| {
            logarithm(number, "$log10", 28761, f64::log10, Function::Log10)
        })
    })
}

fn logarithm(
    number: Number,
    name: &str,
    code: i32,
    double: fn(f64) -> f64,
    decimal: Function,
) -> Result<Value<'static>> {
    if number.is_nan() {
        return Ok(f64::NAN.into());
    }
    if number.compare(Number::Int32(0)).is_le() {
        let message = format!("{name} takes a number above zero");
        return Err(Error::server(code, message));
    }
    Ok(match number {
        Number::Decimal(number) => Number::Decimal(number.apply(decimal)).into(),
        number => double(number.to_double()).into(),
    })
}
