//! `$degreesToRadians`, `$radiansToDegrees`: conversion of angles.
//!
//! ```text
//! { "$degreesToRadians": { "$numberDecimal": "180" } } → { "$numberDecimal": "3.141592653589793238462643383279503" }
//! { "$radiansToDegrees": 0 } → 0.0
//! ```

use std::f64::consts::PI;

use crate::Result;
use crate::expression::call::OperatorCall;
use crate::expression::numeric::apply_to_number;
use crate::expression::{Expression, Value};
use crate::value::{Decimal, Number};

/// π/180 and 180/π, to 34 digits.
const DEGREE: Decimal = positive_decimal(1_745_329_251_994_329_576_923_690_768_488_613, -35);
const RADIAN: Decimal = positive_decimal(5_729_577_951_308_232_087_679_815_481_410_517, -32);

pub(super) fn parse_degrees_to_radians(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| convert_angle("$degreesToRadians", value, PI / 180.0, DEGREE))
}

pub(super) fn parse_radians_to_degrees(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| convert_angle("$radiansToDegrees", value, 180.0 / PI, RADIAN))
}

fn convert_angle<'v>(
    name: &str,
    value: Value<'v>,
    double: f64,
    decimal: Decimal,
) -> Result<Value<'v>> {
    apply_to_number(name, &value, |number| {
        Ok(match number {
            Number::Decimal(number) => Number::Decimal(number.multiply(decimal)).into(),
            number => (number.to_double() * double).into(),
        })
    })
}

const fn positive_decimal(coefficient: u128, exponent: i32) -> Decimal {
    Decimal::Finite {
        negative: false,
        coefficient,
        exponent,
    }
}
