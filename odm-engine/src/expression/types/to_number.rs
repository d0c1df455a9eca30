//! Conversions to numbers.

use bson::RawBsonRef;

use super::convert::conversion_failure;
use crate::Result;
use crate::value::{Decimal, Number};

/// Converts a value to an int. Numbers are truncated, strings must be whole numbers. `None` if the
/// type has no conversion.
pub(super) fn convert_to_int(value: RawBsonRef<'_>) -> Result<Option<i32>> {
    if let RawBsonRef::Double(double) = value
        && !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&double)
    {
        return Err(conversion_failure(format!(
            "{double} is out of the range of int"
        )));
    }
    if matches!(value, RawBsonRef::DateTime(_)) {
        return Ok(None);
    }
    match convert_to_long(value)? {
        Some(long) => match i32::try_from(long) {
            Ok(int) => Ok(Some(int)),
            Err(_) => Err(conversion_failure(format!(
                "{long} is out of the range of int"
            ))),
        },
        None => Ok(None),
    }
}

/// Converts a value to a long. Numbers are truncated, strings must be whole numbers, dates give
/// milliseconds. `None` if the type has no conversion.
pub(super) fn convert_to_long(value: RawBsonRef<'_>) -> Result<Option<i64>> {
    match value {
        RawBsonRef::Boolean(value) => Ok(Some(value.into())),
        RawBsonRef::DateTime(date) => Ok(Some(date.timestamp_millis())),
        RawBsonRef::String(text) => match text.parse() {
            Ok(long) => Ok(Some(long)),
            Err(_) => Err(conversion_failure(format!(
                "'{text}' is not a whole number in range"
            ))),
        },
        value => match Number::from_bson(value) {
            Some(number) => match number.truncated_long() {
                Some(long) => Ok(Some(long)),
                None => Err(conversion_failure("the number is out of the range of long")),
            },
            None => Ok(None),
        },
    }
}

/// Converts a value to the nearest double. `None` if the type has no conversion.
pub(super) fn convert_to_double(value: RawBsonRef<'_>) -> Result<Option<f64>> {
    let out_of_range = || conversion_failure("the number is out of the range of double");
    match value {
        RawBsonRef::Boolean(value) => Ok(Some(value.into())),
        RawBsonRef::DateTime(date) => Ok(Some(date.timestamp_millis() as f64)),
        RawBsonRef::Decimal128(decimal) => {
            let decimal = Decimal::from_bson(decimal);
            let double = decimal.to_double();
            let is_special = decimal.is_nan() || decimal.is_infinite() || decimal.is_zero();
            match is_special || double.is_normal() {
                true => Ok(Some(double)),
                false => Err(out_of_range()),
            }
        }
        RawBsonRef::String(text) => {
            let Ok(double) = text.parse::<f64>() else {
                return Err(conversion_failure(format!("'{text}' is not a number")));
            };
            let is_spelled_out = !text.contains(|c: char| c.is_ascii_digit());
            let is_zero = double == 0.0 && Decimal::parse(text).is_some_and(Decimal::is_zero);
            match is_spelled_out || is_zero || double.is_normal() {
                true => Ok(Some(double)),
                false => Err(out_of_range()),
            }
        }
        value => Ok(Number::from_bson(value).map(Number::to_double)),
    }
}

/// Converts a value to a decimal. A double contributes 15 significant digits. `None` if the type
/// has no conversion.
pub(super) fn convert_to_decimal(value: RawBsonRef<'_>) -> Result<Option<Decimal>> {
    match value {
        RawBsonRef::Boolean(value) => Ok(Some(Decimal::from_integer(value.into()))),
        RawBsonRef::DateTime(date) => Ok(Some(Decimal::from_integer(date.timestamp_millis()))),
        RawBsonRef::String(text) => match Decimal::parse(text) {
            Some(decimal) => Ok(Some(decimal)),
            None => Err(conversion_failure(format!(
                "'{text}' is not a number in range"
            ))),
        },
        value => Ok(Number::from_bson(value).map(Number::to_decimal)),
    }
}
