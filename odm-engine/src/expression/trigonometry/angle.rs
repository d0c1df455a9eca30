//! `$degreesToRadians`, `$radiansToDegrees`: an angle in the other unit.
//!
//! ```text
//! { "$degreesToRadians": { "$numberDecimal": "180" } } → { "$numberDecimal": "3.141592653589793238462643383279503" }
//! { "$radiansToDegrees": 0 } → 0.0
//! ```

use std::f64::consts::PI;

use crate::Result;
use crate::expression::call::Call;
use crate::expression::numeric::numeric;
use crate::expression::{Expression, Value};
use crate::value::{Decimal, Number};

/// π/180 and 180/π, to 34 digits.
const DEGREE: Decimal = digits(1_745_329_251_994_329_576_923_690_768_488_613, -35);
const RADIAN: Decimal = digits(5_729_577_951_308_232_087_679_815_481_410_517, -32);

pub(super) fn parse_degrees_to_radians(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| convert("$degreesToRadians", value, PI / 180.0, DEGREE))
}

pub(super) fn parse_radians_to_degrees(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| convert("$radiansToDegrees", value, 180.0 / PI, RADIAN))
}

fn convert<'v>(name: &str, value: Value<'v>, double: f64, decimal: Decimal) -> Result<Value<'v>> {
    numeric(name, &value, |number| {
        Ok(match number {
            Number::Decimal(number) => Number::Decimal(number.multiply(decimal)).into(),
            number => (number.to_double() * double).into(),
        })
    })
}

const fn digits(coefficient: u128, exponent: i32) -> Decimal {
    Decimal::Finite {
        negative: false,
        coefficient,
        exponent,
    }
}
