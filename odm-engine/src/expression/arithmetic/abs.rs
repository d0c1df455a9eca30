//! `$abs`: a number without its sign.
//!
//! ```text
//! { "$abs": -3 } → 3
//! { "$abs": -0.5 } → 0.5
//! { "$abs": null } → null
//! ```

use crate::expression::call::Call;
use crate::expression::numeric::{int_or_long, numeric};
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(abs)
}

fn abs(value: Value<'_>) -> Result<Value<'_>> {
    numeric("$abs", &value, |number| match number {
        Number::Int32(number) => Ok(int_or_long(i64::from(number).abs())),
        Number::Int64(number) => match number.checked_abs() {
            Some(positive) => Ok(positive.into()),
            None => Err(Error::server(
                28680,
                "$abs of the smallest long is not a long",
            )),
        },
        Number::Double(number) => Ok(number.abs().into()),
        Number::Decimal(number) => Ok(Number::Decimal(number.abs()).into()),
    })
}
