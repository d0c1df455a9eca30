//! Conversion to a date.

use bson::{DateTime, RawBsonRef};

use super::convert::conversion_failure;
use crate::Result;
use crate::expression::date::parse_date;
use crate::value::Number;

/// Converts a value to a date. `None` if the type has no conversion.
///
/// A number is milliseconds since 1970, an ObjectId gives its creation time, and a string is parsed
/// as by `$dateFromString`.
pub(super) fn convert_to_date(value: RawBsonRef<'_>) -> Result<Option<DateTime>> {
    let millis = match value {
        RawBsonRef::DateTime(date) => return Ok(Some(date)),
        RawBsonRef::ObjectId(id) => {
            let [a, b, c, d, ..] = id.bytes();
            i64::from(i32::from_be_bytes([a, b, c, d])) * 1000
        }
        RawBsonRef::String(text) => return parse_date(text).map(Some),
        RawBsonRef::Timestamp(timestamp) => i64::from(timestamp.time) * 1000,
        RawBsonRef::Double(_) | RawBsonRef::Int64(_) | RawBsonRef::Decimal128(_) => {
            let millis = Number::from_bson(value).and_then(Number::truncated_long);
            millis.ok_or_else(|| conversion_failure("the number is out of the range of dates"))?
        }
        _ => return Ok(None),
    };
    Ok(Some(DateTime::from_millis(millis)))
}
