//! The trigonometric and hyperbolic functions and their inverses.
//!
//! A decimal gives a decimal, other numbers give doubles.
//!
//! ```text
//! { "$acos": 1 } → 0.0
//! { "$acosh": 1 } → 0.0
//! { "$asin": 0 } → 0.0
//! { "$asinh": 0 } → 0.0
//! { "$atan": 0 } → 0.0
//! { "$atanh": 1 } → { "$numberDouble": "Infinity" }
//! { "$cos": 0 } → 1.0
//! { "$cosh": 0 } → 1.0
//! { "$sin": { "$numberDecimal": "0" } } → { "$numberDecimal": "0" }
//! { "$sinh": 0 } → 0.0
//! { "$tan": 0 } → 0.0
//! { "$tanh": { "$numberDouble": "Infinity" } } → 1.0
//! ```

use std::f64::consts::LN_2;
use std::fmt;

use crate::expression::call::Call;
use crate::expression::numeric::numeric;
use crate::expression::{Expression, Value};
use crate::value::{Function, Number};
use crate::{Error, Result};

/// For which numbers a function has a value.
#[derive(Debug, Clone, Copy)]
enum Domain {
    All,
    Finite,
    /// From 1.
    FromOne,
    /// From −1 to 1.
    Unit,
}

pub(super) fn parse_acos(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$acos", value, Domain::Unit, f64::acos, Function::Acos))
}

pub(super) fn parse_acosh(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$acosh", value, Domain::FromOne, acosh, Function::Acosh))
}

pub(super) fn parse_asin(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$asin", value, Domain::Unit, f64::asin, Function::Asin))
}

pub(super) fn parse_asinh(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$asinh", value, Domain::All, asinh, Function::Asinh))
}

pub(super) fn parse_atan(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$atan", value, Domain::All, f64::atan, Function::Atan))
}

pub(super) fn parse_atanh(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$atanh", value, Domain::Unit, atanh, Function::Atanh))
}

pub(super) fn parse_cos(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$cos", value, Domain::Finite, f64::cos, Function::Cos))
}

pub(super) fn parse_cosh(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$cosh", value, Domain::All, f64::cosh, Function::Cosh))
}

pub(super) fn parse_sin(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$sin", value, Domain::Finite, f64::sin, Function::Sin))
}

pub(super) fn parse_sinh(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$sinh", value, Domain::All, f64::sinh, Function::Sinh))
}

pub(super) fn parse_tan(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$tan", value, Domain::Finite, f64::tan, Function::Tan))
}

pub(super) fn parse_tanh(call: &Call<'_>) -> Result<Expression> {
    call.unary(|value| apply("$tanh", value, Domain::All, f64::tanh, Function::Tanh))
}

fn apply<'v>(
    name: &str,
    value: Value<'v>,
    domain: Domain,
    double: fn(f64) -> f64,
    decimal: Function,
) -> Result<Value<'v>> {
    numeric(name, &value, |number| {
        if !domain.contains(number) {
            let message = format!("{name} has no value there: its argument is {domain}");
            return Err(Error::server(50989, message));
        }
        Ok(match number {
            Number::Decimal(number) => Number::Decimal(number.apply(decimal)).into(),
            number => double(number.to_double()).into(),
        })
    })
}

impl Domain {
    fn contains(self, number: Number) -> bool {
        let is_from = |limit| number.compare(Number::Int32(limit)).is_ge();
        let is_to = |limit| number.compare(Number::Int32(limit)).is_le();
        // What is not a number stays so.
        number.is_nan()
            || match self {
                Domain::All => true,
                Domain::Finite => match number {
                    Number::Double(number) => number.is_finite(),
                    Number::Decimal(number) => !number.is_infinite(),
                    Number::Int32(_) | Number::Int64(_) => true,
                },
                Domain::FromOne => is_from(1),
                Domain::Unit => is_from(-1) && is_to(1),
            }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Domain::All => "a number",
            Domain::Finite => "a finite number",
            Domain::FromOne => "a number from 1",
            Domain::Unit => "a number from -1 to 1",
        })
    }
}

// The last bits of these depend on the way they are computed. It is that of the C library that the
// server uses.

fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    if x >= (1_u64 << 28) as f64 {
        x.ln() + LN_2
    } else if x > 2.0 {
        (2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())).ln()
    } else {
        (t + (2.0 * t + t * t).sqrt()).ln_1p()
    }
}

fn asinh(x: f64) -> f64 {
    let magnitude = x.abs();
    let square = x * x;
    let result = if x.is_nan() || magnitude < 1.0 / (1_u64 << 28) as f64 {
        return x;
    } else if magnitude > (1_u64 << 28) as f64 {
        magnitude.ln() + LN_2
    } else if magnitude > 2.0 {
        (2.0 * magnitude + 1.0 / ((square + 1.0).sqrt() + magnitude)).ln()
    } else {
        (magnitude + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    result.copysign(x)
}

fn atanh(x: f64) -> f64 {
    let magnitude = x.abs();
    let twice = magnitude + magnitude;
    let result = if magnitude < 1.0 / (1_u64 << 28) as f64 {
        return x;
    } else if magnitude < 0.5 {
        0.5 * (twice + twice * magnitude / (1.0 - magnitude)).ln_1p()
    } else {
        0.5 * (twice / (1.0 - magnitude)).ln_1p()
    };
    result.copysign(x)
}
