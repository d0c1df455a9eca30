//! `$abs`: the absolute value of a number.
//!
//! ```text
//! { "$abs": -3 } → 3
//! { "$abs": -0.5 } → 0.5
//! { "$abs": null } → null
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::numeric::{apply_to_number, int_or_long};
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_abs(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(abs)
}

fn abs(value: Value<'_>) -> Result<Value<'_>> {
    apply_to_number("$abs", &value, |number| match number {
        Number::Int32(number) => Ok(int_or_long(i64::from(number).abs())),
        Number::Int64(number) => match number.checked_abs() {
            Some(positive) => Ok(positive.into()),
            None => Err(Error::with_server_code(
                28680,
                "$abs of the smallest long does not fit into a long",
            )),
        },
        Number::Double(number) => Ok(number.abs().into()),
        Number::Decimal(number) => Ok(Number::Decimal(number.abs()).into()),
    })
}
