//! Conversion of operands to text for string operators.

use std::borrow::Cow;

use bson::{RawBsonRef, Timestamp};

use crate::expression::Value;
use crate::expression::date::{CalendarDate, format_iso};
use crate::expression::types::format_double;
use crate::{Error, Result};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Converts a value to text. Null becomes the empty string.
///
/// # Errors
/// The type of the value has no text form (code 16007).
pub(super) fn text_of<'o>(value: &'o Value<'_>) -> Result<Cow<'o, str>> {
    Ok(match value.or_null() {
        RawBsonRef::Null | RawBsonRef::Undefined => Cow::Borrowed(""),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => Cow::Borrowed(text),
        RawBsonRef::JavaScriptCode(code) => Cow::Borrowed(code),
        RawBsonRef::Int32(number) => Cow::Owned(number.to_string()),
        RawBsonRef::Int64(number) => Cow::Owned(number.to_string()),
        // Unlike conversions, these operators write infinities and NaN as C does, in lower case.
        RawBsonRef::Double(number) if !number.is_finite() => {
            Cow::Owned(number.to_string().to_ascii_lowercase())
        }
        RawBsonRef::Double(number) => Cow::Owned(format_double(number)),
        RawBsonRef::Decimal128(number) => Cow::Owned(number.to_string()),
        RawBsonRef::DateTime(date) => Cow::Owned(format_iso(date)?),
        RawBsonRef::Timestamp(timestamp) => Cow::Owned(format_timestamp(timestamp)),
        other => {
            let type_name = crate::value::type_name(other);
            let message = format!("cannot convert a value of type {type_name} to a string");
            return Err(Error::with_server_code(16007, message));
        }
    })
}

/// Formats a timestamp as `Nov 14 22:13:20:7`. The last number is the increment.
fn format_timestamp(timestamp: Timestamp) -> String {
    let local = CalendarDate::from_millis(i64::from(timestamp.time) * 1000);
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
    fn timestamps_are_dates() {
        let text = format_timestamp(Timestamp {
            time: 1,
            increment: 2,
        });
        assert_eq!(text, "Jan  1 00:00:01:2");
    }
}
