//! `$ceil`, `$floor`: the least whole number that is not below a number, the greatest that is not
//! above it.
//!
//! ```text
//! { "$ceil": 2.1 } → 3.0
//! { "$ceil": { "$numberDecimal": "-2.1" } } → { "$numberDecimal": "-2" }
//! { "$floor": 2.9 } → 2.0
//! { "$floor": 7 } → 7
//! ```

use crate::Result;
use crate::expression::call::Call;
use crate::expression::numeric::numeric;
use crate::expression::{Expression, Value};
use crate::value::{Decimal, Number, Rounding};

pub(super) fn parse_ceil(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| {
        numeric("$ceil", &value, |number| {
            Ok(whole(number, f64::ceil, Rounding::Ceiling))
        })
    })
}

pub(super) fn parse_floor(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| {
        numeric("$floor", &value, |number| {
            Ok(whole(number, f64::floor, Rounding::Floor))
        })
    })
}

fn whole(number: Number, double: fn(f64) -> f64, decimal: Rounding) -> Value<'static> {
    match number {
        Number::Double(number) => double(number).into(),
        // A whole decimal of more than 34 digits has no form without an exponent: NaN, on the server.
        Number::Decimal(number) => {
            Number::Decimal(number.quantize(0, decimal).unwrap_or(Decimal::NaN)).into()
        }
        number => number.into(),
    }
}
