//! What string operators take other values for.

use std::borrow::Cow;

use bson::{RawBsonRef, Timestamp};

use crate::expression::Value;
use crate::expression::date::{Calendar, format_iso};
use crate::{Error, Result};

/// How many digits of a double there are.
const DIGITS: i32 = 6;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A value as text. Null is none at all.
///
/// # Errors
/// Values of types that have no text (code 16007).
pub(super) fn of<'o>(value: &'o Value<'_>) -> Result<Cow<'o, str>> {
    Ok(match value.or_null() {
        RawBsonRef::Null | RawBsonRef::Undefined => Cow::Borrowed(""),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => Cow::Borrowed(text),
        RawBsonRef::JavaScriptCode(code) => Cow::Borrowed(code),
        RawBsonRef::Int32(number) => Cow::Owned(number.to_string()),
        RawBsonRef::Int64(number) => Cow::Owned(number.to_string()),
        RawBsonRef::Double(number) => Cow::Owned(double(number)),
        RawBsonRef::Decimal128(number) => Cow::Owned(number.to_string()),
        RawBsonRef::DateTime(date) => Cow::Owned(format_iso(date)?),
        RawBsonRef::Timestamp(timestamp) => Cow::Owned(self::timestamp(timestamp)),
        other => {
            let found = crate::value::type_name(other);
            let message = format!("a value of type {found} cannot be taken for a string");
            return Err(Error::server(16007, message));
        }
    })
}

/// A double with its six first digits, as C's `%g` has it.
fn double(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let places = usize::try_from(DIGITS - 1).unwrap_or_default();
    let scientific = format!("{number:.places$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).unwrap_or_default();
        return without_zeros(&format!("{number:.places$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mantissa = without_zeros(mantissa);
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// A timestamp as `Nov 14 22:13:20:7`, the last number being its increment.
fn timestamp(timestamp: Timestamp) -> String {
    let local = Calendar::from_millis(i64::from(timestamp.time) * 1000);
    let month = usize::from(local.month).checked_sub(1);
    let month = month.and_then(|month| MONTHS.get(month)).unwrap_or(&"");
    format!(
        "{month} {:2} {:02}:{:02}:{:02}:{}",
        local.day, local.hour, local.minute, local.second, timestamp.increment
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_have_six_digits() {
        let cases = [
            (1.5, "1.5"),
            (0.1 + 0.2, "0.3"),
            (5.0, "5"),
            (-0.0, "-0"),
            (123_456_789.0, "1.23457e+08"),
            (1e100, "1e+100"),
            (0.00001, "1e-05"),
            (999_999.5, "1e+06"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, text) in cases {
            assert_eq!(double(number), text);
        }
    }

    #[test]
    fn timestamps_are_dates() {
        let text = timestamp(Timestamp {
            time: 1,
            increment: 2,
        });
        assert_eq!(text, "Jan  1 00:00:01:2");
    }
}
