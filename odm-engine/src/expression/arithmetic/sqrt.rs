//! `$sqrt`: the square root of a number that is not below zero.
//!
//! ```text
//! { "$sqrt": 9 } → 3.0
//! { "$sqrt": { "$numberDecimal": "1.44" } } → { "$numberDecimal": "1.2" }
//! ```

use crate::expression::Expression;
use crate::expression::call::Call;
use crate::expression::numeric::numeric;
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| {
        numeric("$sqrt", &value, |number| {
            if !number.is_nan() && number.compare(Number::Int32(0)).is_lt() {
                let message = "$sqrt takes a number that is not below zero";
                return Err(Error::server(28714, message));
            }
            Ok(match number {
                Number::Decimal(number) => Number::Decimal(number.sqrt()).into(),
                number => number.to_double().sqrt().into(),
            })
        })
    })
}
