//! `$dateToParts`: the parts of a date as a document. With `iso8601`, the parts are week parts of
//! ISO 8601.
//!
//! ```text
//! { "$dateToParts": { "date": { "$date": "2024-12-30T23:59:58.007Z" } } } → { "year": 2024, "month": 12, "day": 30, "hour": 23, "minute": 59, "second": 58, "millisecond": 7 }
//! { "$dateToParts": { "date": { "$date": "2024-12-30T10:00:00Z" }, "iso8601": true } } → { "isoWeekYear": 2025, "isoWeek": 1, "isoDayOfWeek": 1, "hour": 10, "minute": 0, "second": 0, "millisecond": 0 }
//! { "$dateToParts": { "date": null } } → null
//! ```

use bson::{RawBsonRef, RawDocumentBuf};

use super::argument::{read_zone, require_millis};
use super::calendar::CalendarDate;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result, document};

pub(super) fn parse_date_to_parts(call: &OperatorCall<'_>) -> Result<Expression> {
    let known = &["date", "iso8601", "timezone"];
    let arguments = call.named_arguments(known, 40524, 40520)?;
    let operands = [
        arguments.required_expression("date", 40522)?,
        arguments.expression_or("iso8601", RawBsonRef::Boolean(false))?,
        arguments.expression_or("timezone", RawBsonRef::String("UTC"))?,
    ];
    call.fixed_function(operands, date_to_parts)
}

fn date_to_parts(operands: [Value<'_>; 3]) -> Result<Value<'_>> {
    let [date, iso, zone] = &operands;
    let Some(zone) = read_zone(zone)? else {
        return Ok(Value::NULL);
    };
    let iso = match iso.or_null() {
        RawBsonRef::Boolean(iso) => iso,
        _ if iso.is_nullish() => return Ok(Value::NULL),
        _ => {
            let message = format!("'iso8601' must be a bool, not {}", iso.type_name());
            return Err(Error::with_server_code(40521, message));
        }
    };
    if date.is_nullish() {
        return Ok(Value::NULL);
    }
    let date = CalendarDate::from_millis(zone.to_local(require_millis(date)?));
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
        // All parts fit into 32 bits, including the years of the first and the last date.
        let part = i32::try_from(part).unwrap_or_default();
        document::append_field(&mut parts, name, part);
    }
    Ok(parts.into())
}
