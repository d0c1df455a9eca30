//! `$dateToParts`: the parts of a date as a document, those of ISO 8601's weeks if `iso8601` is
//! true.
//!
//! ```text
//! { "$dateToParts": { "date": { "$date": "2024-12-30T23:59:58.007Z" } } } → { "year": 2024, "month": 12, "day": 30, "hour": 23, "minute": 59, "second": 58, "millisecond": 7 }
//! { "$dateToParts": { "date": { "$date": "2024-12-30T10:00:00Z" }, "iso8601": true } } → { "isoWeekYear": 2025, "isoWeek": 1, "isoDayOfWeek": 1, "hour": 10, "minute": 0, "second": 0, "millisecond": 0 }
//! { "$dateToParts": { "date": null } } → null
//! ```

use bson::{RawBsonRef, RawDocumentBuf};

use super::argument::{instant, zone_of};
use super::calendar::Calendar;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result, document};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let known = &["date", "iso8601", "timezone"];
    let arguments = call.arguments(known, 40524, 40520)?;
    let operands = [
        arguments.required("date", 40522)?,
        arguments.optional_or("iso8601", RawBsonRef::Boolean(false))?,
        arguments.optional_or("timezone", RawBsonRef::String("UTC"))?,
    ];
    call.function(operands, date_to_parts)
}

fn date_to_parts(operands: [Value<'_>; 3]) -> Result<Value<'_>> {
    let [date, iso, zone] = &operands;
    let Some(zone) = zone_of(zone)? else {
        return Ok(Value::NULL);
    };
    let iso = match iso.or_null() {
        RawBsonRef::Boolean(iso) => iso,
        _ if iso.is_nullish() => return Ok(Value::NULL),
        _ => {
            let message = format!("'iso8601' is a bool, not {}", iso.type_name());
            return Err(Error::server(40521, message));
        }
    };
    if date.is_nullish() {
        return Ok(Value::NULL);
    }
    let date = Calendar::from_millis(zone.local(instant(date)?));
    let day = if iso {
        let (year, week) = date.iso_week();
        [
            ("isoWeekYear", year),
            ("isoWeek", week),
            ("isoDayOfWeek", date.iso_day_of_week()),
        ]
    } else {
        [
            ("year", date.year),
            ("month", date.month.into()),
            ("day", date.day.into()),
        ]
    };
    let time = [
        ("hour", date.hour.into()),
        ("minute", date.minute.into()),
        ("second", date.second.into()),
        ("millisecond", i64::from(date.millisecond)),
    ];
    let mut parts = RawDocumentBuf::new();
    for (name, part) in day.into_iter().chain(time) {
        // All parts fit, even the years of the first and the last date.
        let part = i32::try_from(part).unwrap_or_default();
        document::append(&mut parts, name, part);
    }
    Ok(parts.into())
}
