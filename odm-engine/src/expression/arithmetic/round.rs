//! `$round`, `$trunc`: a number rounded to a decimal place. A negative place counts to the left of
//! the point.
//!
//! `$round` rounds half to even, `$trunc` rounds towards zero.
//!
//! ```text
//! { "$round": [2.675, 2] } → 2.67
//! { "$round": 2.5 } → 2.0
//! { "$round": [12350, -2] } → 12400
//! { "$trunc": [{ "$numberDecimal": "2.789" }, 2] } → { "$numberDecimal": "2.78" }
//! ```

use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::{Decimal, Number, Rounding};
use crate::{Error, Result};

pub(super) fn parse_round(call: &OperatorCall<'_>) -> Result<Expression> {
    call.bounded_variadic(1..=2, |values| {
        round_number(values, "$round", Rounding::HalfEven)
    })
}

pub(super) fn parse_trunc(call: &OperatorCall<'_>) -> Result<Expression> {
    call.bounded_variadic(1..=2, |values| {
        round_number(values, "$trunc", Rounding::Down)
    })
}

fn round_number<'v>(values: Vec<Value<'v>>, name: &str, rounding: Rounding) -> Result<Value<'v>> {
    let mut values = values.into_iter();
    let value = values.next().unwrap_or(Value::Missing);
    if value.is_nullish() {
        return Ok(Value::NULL);
    }
    let number = value.as_number().ok_or_else(|| {
        let message = format!("{name} takes a number, not {}", value.type_name());
        Error::with_server_code(51081, message)
    })?;
    let place = match values.next() {
        None => 0,
        Some(place) if place.is_nullish() => return Ok(Value::NULL),
        Some(place) => read_place(&place, name)?,
    };
    Ok(match number {
        Number::Decimal(number) => {
            if number.is_infinite() || number.is_nan() {
                return Ok(Number::Decimal(number).into());
            }
            Number::Decimal(number.round_to_place(place, rounding)).into()
        }
        Number::Double(number) => {
            if !number.is_finite() {
                return Ok(number.into());
            }
            let exact = Decimal::from_double_exact(number);
            exact.round_to_place(place, rounding).to_double().into()
        }
        number if place >= 0 => number.into(),
        number => {
            let rounded = number.to_decimal().round_to_place(place, rounding);
            let rounded = rounded.truncated_long().ok_or_else(|| {
                Error::with_server_code(
                    51080,
                    format!("the result of {name} does not fit into a long"),
                )
            })?;
            match (number, i32::try_from(rounded)) {
                (Number::Int32(_), Ok(small)) => small.into(),
                _ => rounded.into(),
            }
        }
    })
}

fn read_place(value: &Value<'_>, name: &str) -> Result<i32> {
    let number = value.as_number().ok_or_else(|| {
        let type_name = value.type_name();
        Error::with_server_code(
            16004,
            format!("the place of {name} must be a number, not {type_name}"),
        )
    })?;
    if let Number::Double(double) = number
        && number.truncated_long().is_none()
    {
        let message = format!("the place of {name} cannot be {double}");
        return Err(Error::with_server_code(31109, message));
    }
    let Some(place) = number.whole_long() else {
        let message = format!("the place of {name} must be a whole number");
        return Err(Error::with_server_code(51082, message));
    };
    match i32::try_from(place) {
        Ok(place @ -20..=100) => Ok(place),
        _ => {
            let message = format!("the place of {name} must be between -20 and 100, not {place}");
            Err(Error::with_server_code(51083, message))
        }
    }
}
