//! Conversions to numbers.

use bson::RawBsonRef;

use super::convert::failure;
use crate::Result;
use crate::value::{Decimal, Number};

/// An int: of a number what stands in front of the point, of a string a whole number. `None` if the
/// type has no conversion.
pub(super) fn int(value: RawBsonRef<'_>) -> Result<Option<i32>> {
    if let RawBsonRef::Double(double) = value
        && !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&double)
    {
        return Err(failure(format!("{double} is out of the range of int")));
    }
    if matches!(value, RawBsonRef::DateTime(_)) {
        return Ok(None);
    }
    match long(value)? {
        Some(long) => match i32::try_from(long) {
            Ok(int) => Ok(Some(int)),
            Err(_) => Err(failure(format!("{long} is out of the range of int"))),
        },
        None => Ok(None),
    }
}

/// A long: of a number what stands in front of the point, of a string a whole number, of a date its
/// milliseconds. `None` if the type has no conversion.
pub(super) fn long(value: RawBsonRef<'_>) -> Result<Option<i64>> {
    match value {
        RawBsonRef::Boolean(value) => Ok(Some(value.into())),
        RawBsonRef::DateTime(date) => Ok(Some(date.timestamp_millis())),
        RawBsonRef::String(text) => match text.parse() {
            Ok(long) => Ok(Some(long)),
            Err(_) => Err(failure(format!("'{text}' is not a whole number in range"))),
        },
        value => match Number::from_bson(value) {
            Some(number) => match number.truncated() {
                Some(long) => Ok(Some(long)),
                None => Err(failure("the number is out of the range of long")),
            },
            None => Ok(None),
        },
    }
}

/// A double: the nearest one. `None` if the type has no conversion.
pub(super) fn double(value: RawBsonRef<'_>) -> Result<Option<f64>> {
    let out_of_range = || failure("the number is out of the range of double");
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
                return Err(failure(format!("'{text}' is not a number")));
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

/// A decimal: a double by its 15 significant digits. `None` if the type has no conversion.
pub(super) fn decimal(value: RawBsonRef<'_>) -> Result<Option<Decimal>> {
    match value {
        RawBsonRef::Boolean(value) => Ok(Some(Decimal::from_integer(value.into()))),
        RawBsonRef::DateTime(date) => Ok(Some(Decimal::from_integer(date.timestamp_millis()))),
        RawBsonRef::String(text) => match Decimal::parse(text) {
            Some(decimal) => Ok(Some(decimal)),
            None => Err(failure(format!("'{text}' is not a number in range"))),
        },
        value => Ok(Number::from_bson(value).map(Number::to_decimal)),
    }
}
