//! `$abs`: a number without its sign.
//!
//! ```text
//! { "$abs": -3 } → 3
//! { "$abs": -0.5 } → 0.5
//! { "$abs": null } → null
//! ```

use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(abs)
}

fn abs(value: Value<'_>) -> Result<Value<'_>> {
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    match value.number() {
        Some(Number::Int32(number)) => Ok(match number.checked_abs() {
            Some(positive) => positive.into(),
            None => i64::from(number).abs().into(),
        }),
        Some(Number::Int64(number)) => match number.checked_abs() {
            Some(positive) => Ok(positive.into()),
            None => Err(Error::server(
                28680,
                "$abs of the smallest long is not a long",
            )),
        },
        Some(Number::Double(number)) => Ok(number.abs().into()),
        Some(Number::Decimal(number)) => Ok(Number::Decimal(number.abs()).into()),
        None => {
            let message = format!("$abs takes a number, not {}", value.type_name());
            Err(Error::server(28765, message))
        }
    }
}
