//! What string operators take other values for.

use std::borrow::Cow;

use bson::{RawBsonRef, Timestamp};

use crate::expression::Value;
use crate::expression::date::{Calendar, format_iso};
use crate::expression::types::double;
use crate::{Error, Result};

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
        // Unlike conversions, these operators leave the names of what is not finite to C.
        RawBsonRef::Double(number) if !number.is_finite() => {
            Cow::Owned(number.to_string().to_ascii_lowercase())
        }
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
    fn timestamps_are_dates() {
        let text = timestamp(Timestamp {
            time: 1,
            increment: 2,
        });
        assert_eq!(text, "Jan  1 00:00:01:2");
    }
}
