//! The trigonometric and hyperbolic functions and their inverses.
//!
//! A decimal gives a decimal. Other numbers give a double.
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

use crate::expression::call::OperatorCall;
use crate::expression::numeric::apply_to_number;
use crate::expression::{Expression, Value};
use crate::value::{DecimalFunction, Number};
use crate::{Error, Result};

/// The numbers for which a function has a value.
#[derive(Debug, Clone, Copy)]
enum FunctionDomain {
    All,
    Finite,
    /// 1 and greater numbers.
    FromOne,
    /// The numbers from −1 to 1.
    Unit,
}

pub(super) fn parse_acos(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$acos",
            value,
            FunctionDomain::Unit,
            f64::acos,
            DecimalFunction::Acos,
        )
    })
}

pub(super) fn parse_acosh(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$acosh",
            value,
            FunctionDomain::FromOne,
            acosh,
            DecimalFunction::Acosh,
        )
    })
}

pub(super) fn parse_asin(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$asin",
            value,
            FunctionDomain::Unit,
            f64::asin,
            DecimalFunction::Asin,
        )
    })
}

pub(super) fn parse_asinh(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$asinh",
            value,
            FunctionDomain::All,
            asinh,
            DecimalFunction::Asinh,
        )
    })
}

pub(super) fn parse_atan(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$atan",
            value,
            FunctionDomain::All,
            f64::atan,
            DecimalFunction::Atan,
        )
    })
}

pub(super) fn parse_atanh(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$atanh",
            value,
            FunctionDomain::Unit,
            atanh,
            DecimalFunction::Atanh,
        )
    })
}

pub(super) fn parse_cos(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$cos",
            value,
            FunctionDomain::Finite,
            f64::cos,
            DecimalFunction::Cos,
        )
    })
}

pub(super) fn parse_cosh(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$cosh",
            value,
            FunctionDomain::All,
            f64::cosh,
            DecimalFunction::Cosh,
        )
    })
}

pub(super) fn parse_sin(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$sin",
            value,
            FunctionDomain::Finite,
            f64::sin,
            DecimalFunction::Sin,
        )
    })
}

pub(super) fn parse_sinh(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$sinh",
            value,
            FunctionDomain::All,
            f64::sinh,
            DecimalFunction::Sinh,
        )
    })
}

pub(super) fn parse_tan(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$tan",
            value,
            FunctionDomain::Finite,
            f64::tan,
            DecimalFunction::Tan,
        )
    })
}

pub(super) fn parse_tanh(call: &OperatorCall<'_>) -> Result<Expression> {
    call.unary(|value| {
        apply_function(
            "$tanh",
            value,
            FunctionDomain::All,
            f64::tanh,
            DecimalFunction::Tanh,
        )
    })
}

fn apply_function<'v>(
    name: &str,
    value: Value<'v>,
    domain: FunctionDomain,
    double: fn(f64) -> f64,
    decimal: DecimalFunction,
) -> Result<Value<'v>> {
    apply_to_number(name, &value, |number| {
        if !domain.contains_number(number) {
            let message = format!("the operand of {name} must be {domain}");
            return Err(Error::with_server_code(50989, message));
        }
        Ok(match number {
            Number::Decimal(number) => Number::Decimal(number.apply_function(decimal)).into(),
            number => double(number.to_double()).into(),
        })
    })
}

impl FunctionDomain {
    fn contains_number(self, number: Number) -> bool {
        let is_from = |limit| number.compare(Number::Int32(limit)).is_ge();
        let is_to = |limit| number.compare(Number::Int32(limit)).is_le();
        // NaN is always allowed: the result is NaN.
        number.is_nan()
            || match self {
                FunctionDomain::All => true,
                FunctionDomain::Finite => match number {
                    Number::Double(number) => number.is_finite(),
                    Number::Decimal(number) => !number.is_infinite(),
                    Number::Int32(_) | Number::Int64(_) => true,
                },
                FunctionDomain::FromOne => is_from(1),
                FunctionDomain::Unit => is_from(-1) && is_to(1),
            }
    }
}

impl fmt::Display for FunctionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FunctionDomain::All => "a number",
            FunctionDomain::Finite => "a finite number",
            FunctionDomain::FromOne => "a number from 1",
            FunctionDomain::Unit => "a number from -1 to 1",
        })
    }
}

// Inverse hyperbolic cosine. The last bits depend on the method, so this function and the next two
// copy the server's C library.

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
    let doubled = magnitude + magnitude;
    let result = if magnitude < 1.0 / (1_u64 << 28) as f64 {
        return x;
    } else if magnitude < 0.5 {
        0.5 * (doubled + doubled * magnitude / (1.0 - magnitude)).ln_1p()
    } else {
        0.5 * (doubled / (1.0 - magnitude)).ln_1p()
    };
    result.copysign(x)
}
