//! `$ceil`, `$floor`: a number rounded up or down to a whole number.
//!
//! ```text
//! { "$ceil": 2.1 } → 3.0
//! { "$ceil": { "$numberDecimal": "-2.1" } } → { "$numberDecimal": "-2" }
//! { "$floor": 2.9 } → 2.0
//! { "$floor": 7 } → 7
//! ```

use crate::Result;
use crate::expression::call::OperatorCall;
use crate::expression::numeric::apply_to_number;
use crate::expression::{Expression, Value};
use crate::value::{Decimal, Number, Rounding};

pub(super) fn parse_ceil(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_to_number("$ceil", &value, |number| {
            Ok(round_to_whole(number, f64::ceil, Rounding::Ceiling))
        })
    })
}

pub(super) fn parse_floor(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_to_number("$floor", &value, |number| {
            Ok(round_to_whole(number, f64::floor, Rounding::Floor))
        })
    })
}

fn round_to_whole(number: Number, double: fn(f64) -> f64, decimal: Rounding) -> Value<'static> {
    match number {
        Number::Double(number) => double(number).into(),
        // As on the server, the result is NaN if the whole part has more than 34 digits and so
        // needs an exponent.
        Number::Decimal(number) => {
            Number::Decimal(number.quantize(0, decimal).unwrap_or(Decimal::NaN)).into()
        }
        number => number.into(),
    }
}
