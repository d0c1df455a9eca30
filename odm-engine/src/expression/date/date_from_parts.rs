//! `$dateFromParts`: a date from calendar parts or from ISO 8601 week parts. Parts out of range
//! carry over.
//!
//! ```text
//! { "$dateFromParts": { "year": 2024, "month": 5, "day": 17, "hour": 10 } } → { "$date": "2024-05-17T10:00:00Z" }
//! { "$dateFromParts": { "year": 2024, "month": 14, "timezone": "+01" } } → { "$date": "2025-01-31T23:00:00Z" }
//! { "$dateFromParts": { "isoWeekYear": 2025, "isoWeek": 1, "isoDayOfWeek": 2 } } → { "$date": "2024-12-31T00:00:00Z" }
//! { "$dateFromParts": { "year": null } } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use super::argument::read_zone;
use super::calendar::{
    DAY_MILLIS, HOUR_MILLIS, MINUTE_MILLIS, SECOND_MILLIS, days_of_date, days_of_iso_week,
};
use crate::error::code;
use crate::expression::call::{FunctionOf, OperatorCall};
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

const CALENDAR_PARTS: [&str; 3] = ["year", "month", "day"];
const ISO_WEEK_PARTS: [&str; 3] = ["isoWeekYear", "isoWeek", "isoDayOfWeek"];
const KNOWN_ARGUMENTS: &[&str] = &[
    "year",
    "month",
    "day",
    "isoWeekYear",
    "isoWeek",
    "isoDayOfWeek",
    "hour",
    "minute",
    "second",
    "millisecond",
    "timezone",
];

pub(super) fn parse_date_from_parts(call: &OperatorCall<'_>) -> Result<Expression> {
    let arguments = call.named_arguments(KNOWN_ARGUMENTS, 40519, 40518)?;
    let is_given = |name: &&str| arguments.get(name).is_some();
    let has_natural = CALENDAR_PARTS.iter().any(is_given);
    let has_iso = ISO_WEEK_PARTS.iter().any(is_given);
    let (names, function): (_, FunctionOf<8>) = if arguments.get("year").is_some() {
        if has_iso {
            let message = "$dateFromParts takes calendar parts or ISO week parts, not both";
            return Err(Error::with_server_code(40489, message));
        }
        (CALENDAR_PARTS, from_calendar_parts)
    } else if arguments.get("isoWeekYear").is_some() {
        if has_natural {
            let message = "$dateFromParts takes ISO week parts or calendar parts, not both";
            return Err(Error::with_server_code(40525, message));
        }
        (ISO_WEEK_PARTS, from_iso_parts)
    } else {
        let message = "$dateFromParts needs the argument 'year' or 'isoWeekYear'";
        return Err(Error::with_server_code(40516, message));
    };
    let [year, month, day] = names;
    let part = |name, default| arguments.expression_or(name, RawBsonRef::Int32(default));
    let operands = [
        part(year, 1970)?,
        part(month, 1)?,
        part(day, 1)?,
        part("hour", 0)?,
        part("minute", 0)?,
        part("second", 0)?,
        part("millisecond", 0)?,
        arguments.expression_or("timezone", RawBsonRef::String("UTC"))?,
    ];
    call.fixed_function(operands, function)
}

fn from_calendar_parts(operands: [Value<'_>; 8]) -> Result<Value<'_>> {
    from_parts(&operands, CALENDAR_PARTS, 40523, days_of_date)
}

fn from_iso_parts(operands: [Value<'_>; 8]) -> Result<Value<'_>> {
    from_parts(&operands, ISO_WEEK_PARTS, 31095, days_of_iso_week)
}

fn from_parts(
    operands: &[Value<'_>; 8],
    names: [&str; 3],
    year_out_of_range: i32,
    days: fn(i64, i64, i64) -> i64,
) -> Result<Value<'static>> {
    let [year, month, day, hour, minute, second, millisecond, zone] = operands;
    let time = (
        read_short("hour", hour)?,
        read_short("minute", minute)?,
        read_integer("second", second)?,
        read_integer("millisecond", millisecond)?,
    );
    let (Some(hour), Some(minute), Some(second), Some(millisecond)) = time else {
        return Ok(Value::NULL);
    };
    let Some(zone) = read_zone(zone)? else {
        return Ok(Value::NULL);
    };
    let [year_name, month_name, day_name] = names;
    let Some(year) = read_integer(year_name, year)? else {
        return Ok(Value::NULL);
    };
    let (Some(month), Some(day)) = (read_short(month_name, month)?, read_short(day_name, day)?)
    else {
        return Ok(Value::NULL);
    };
    if !(1..=9999).contains(&year) {
        let message = format!("'{year_name}' must be between 1 and 9999, not {year}");
        return Err(Error::with_server_code(year_out_of_range, message));
    }
    let midnight =
        days(year, month, day) * DAY_MILLIS + hour * HOUR_MILLIS + minute * MINUTE_MILLIS;
    let local = second
        .checked_mul(SECOND_MILLIS)
        .and_then(|millis| millis.checked_add(millisecond)?.checked_add(midnight))
        // MongoDB computes this step in microseconds, which overflow earlier.
        .filter(|_| millisecond.checked_mul(1000).is_some())
        .ok_or_else(|| {
            Error::with_server_code(code::DURATION_OVERFLOW, "the date is out of range")
        })?;
    let instant = zone.to_instant(local, None);
    Ok(RawBson::DateTime(DateTime::from_millis(instant)).into())
}

/// Reads a part that must fit into 16 bits. `None` for null.
fn read_short(name: &str, value: &Value<'_>) -> Result<Option<i64>> {
    let part = read_integer(name, value)?;
    if part.is_some_and(|part| i16::try_from(part).is_err()) {
        let message = format!("'{name}' must be between -32768 and 32767");
        return Err(Error::with_server_code(31034, message));
    }
    Ok(part)
}

fn read_integer(name: &str, value: &Value<'_>) -> Result<Option<i64>> {
    if value.is_nullish() {
        return Ok(None);
    }
    value
        .as_number()
        .and_then(Number::whole_long)
        .map(Some)
        .ok_or_else(|| {
            let type_name = value.type_name();
            let message =
                format!("'{name}' must be a whole number, not a value of type {type_name}");
            Error::with_server_code(40515, message)
        })
}
