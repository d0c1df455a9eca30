//! `$sqrt`: the square root of a number that is not negative.
//!
//! ```text
//! { "$sqrt": 9 } → 3.0
//! { "$sqrt": { "$numberDecimal": "1.44" } } → { "$numberDecimal": "1.2" }
//! ```

use crate::expression::Expression;
use crate::expression::call::OperatorCall;
use crate::expression::numeric::apply_to_number;
use crate::value::Number;
use crate::{Error, Result};

pub(super) fn parse_sqrt(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_to_number("$sqrt", &value, |number| {
            if !number.is_nan() && number.compare(Number::Int32(0)).is_lt() {
                let message = "the operand of $sqrt must not be negative";
                return Err(Error::with_server_code(28714, message));
            }
            Ok(match number {
                Number::Decimal(number) => Number::Decimal(number.sqrt()).into(),
                number => number.to_double().sqrt().into(),
            })
        })
    })
}
