//! Conversion to a date.

use bson::{DateTime, RawBsonRef};

use super::convert::failure;
use crate::Result;
use crate::expression::date::read;
use crate::value::Number;

/// A date: of a number so many milliseconds after 1970, of an ObjectId when it was made, of a string
/// what `$dateFromString` takes it for. `None` if the type has no conversion.
pub(super) fn convert(value: RawBsonRef<'_>) -> Result<Option<DateTime>> {
    let millis = match value {
        RawBsonRef::DateTime(date) => return Ok(Some(date)),
        RawBsonRef::ObjectId(id) => {
            let [a, b, c, d, ..] = id.bytes();
            i64::from(i32::from_be_bytes([a, b, c, d])) * 1000
        }
        RawBsonRef::String(text) => return read(text).map(Some),
        RawBsonRef::Timestamp(timestamp) => i64::from(timestamp.time) * 1000,
        RawBsonRef::Double(_) | RawBsonRef::Int64(_) | RawBsonRef::Decimal128(_) => {
            let millis = Number::from_bson(value).and_then(Number::truncated);
            millis.ok_or_else(|| failure("the number is out of the range of dates"))?
        }
        _ => return Ok(None),
    };
    Ok(Some(DateTime::from_millis(millis)))
}
