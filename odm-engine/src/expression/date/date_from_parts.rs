//! `$dateFromParts`: a date from its parts, or from those of ISO 8601's weeks. Parts beyond their
//! range carry over to the next.
//!
//! ```text
//! { "$dateFromParts": { "year": 2024, "month": 5, "day": 17, "hour": 10 } } → { "$date": "2024-05-17T10:00:00Z" }
//! { "$dateFromParts": { "year": 2024, "month": 14, "timezone": "+01" } } → { "$date": "2025-01-31T23:00:00Z" }
//! { "$dateFromParts": { "isoWeekYear": 2025, "isoWeek": 1, "isoDayOfWeek": 2 } } → { "$date": "2024-12-31T00:00:00Z" }
//! { "$dateFromParts": { "year": null } } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use super::argument::zone_of;
use super::calendar::{DAY, HOUR, MINUTE, SECOND, days_of, days_of_iso};
use crate::error::code;
use crate::expression::call::{Call, FunctionOf};
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

const NATURAL: [&str; 3] = ["year", "month", "day"];
const ISO: [&str; 3] = ["isoWeekYear", "isoWeek", "isoDayOfWeek"];
const KNOWN: &[&str] = &[
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

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let arguments = call.arguments(KNOWN, 40519, 40518)?;
    let is_given = |name: &&str| arguments.get(name).is_some();
    let has_natural = NATURAL.iter().any(is_given);
    let has_iso = ISO.iter().any(is_given);
    let (names, function): (_, FunctionOf<8>) = if arguments.get("year").is_some() {
        if has_iso {
            let message = "the parts of a date are natural ones or those of weeks, not both";
            return Err(Error::server(40489, message));
        }
        (NATURAL, natural)
    } else if arguments.get("isoWeekYear").is_some() {
        if has_natural {
            let message = "the parts of a date are those of weeks or natural ones, not both";
            return Err(Error::server(40525, message));
        }
        (ISO, iso)
    } else {
        let message = "$dateFromParts needs the argument 'year' or 'isoWeekYear'";
        return Err(Error::server(40516, message));
    };
    let [year, month, day] = names;
    let part = |name, default| arguments.optional_or(name, RawBsonRef::Int32(default));
    let operands = [
        part(year, 1970)?,
        part(month, 1)?,
        part(day, 1)?,
        part("hour", 0)?,
        part("minute", 0)?,
        part("second", 0)?,
        part("millisecond", 0)?,
        arguments.optional_or("timezone", RawBsonRef::String("UTC"))?,
    ];
    call.function(operands, function)
}

fn natural(operands: [Value<'_>; 8]) -> Result<Value<'_>> {
    from_parts(&operands, NATURAL, 40523, days_of)
}

fn iso(operands: [Value<'_>; 8]) -> Result<Value<'_>> {
    from_parts(&operands, ISO, 31095, days_of_iso)
}

fn from_parts(
    operands: &[Value<'_>; 8],
    names: [&str; 3],
    year_out_of_range: i32,
    days: fn(i64, i64, i64) -> i64,
) -> Result<Value<'static>> {
    let [year, month, day, hour, minute, second, millisecond, zone] = operands;
    let time = (
        short("hour", hour)?,
        short("minute", minute)?,
        whole("second", second)?,
        whole("millisecond", millisecond)?,
    );
    let (Some(hour), Some(minute), Some(second), Some(millisecond)) = time else {
        return Ok(Value::NULL);
    };
    let Some(zone) = zone_of(zone)? else {
        return Ok(Value::NULL);
    };
    let [year_name, month_name, day_name] = names;
    let Some(year) = whole(year_name, year)? else {
        return Ok(Value::NULL);
    };
    let (Some(month), Some(day)) = (short(month_name, month)?, short(day_name, day)?) else {
        return Ok(Value::NULL);
    };
    if !(1..=9999).contains(&year) {
        let message = format!("'{year_name}' is between 1 and 9999, not {year}");
        return Err(Error::server(year_out_of_range, message));
    }
    let midnight = days(year, month, day) * DAY + hour * HOUR + minute * MINUTE;
    let local = second
        .checked_mul(SECOND)
        .and_then(|millis| millis.checked_add(millisecond)?.checked_add(midnight))
        // The clocks below count in microseconds on MongoDB.
        .filter(|_| millisecond.checked_mul(1000).is_some())
        .ok_or_else(|| Error::server(code::DURATION_OVERFLOW, "the date is out of range"))?;
    let instant = zone.instant(local, None);
    Ok(RawBson::DateTime(DateTime::from_millis(instant)).into())
}

/// A part that has 16 bits; `None` if it is null.
fn short(name: &str, value: &Value<'_>) -> Result<Option<i64>> {
    let part = whole(name, value)?;
    if part.is_some_and(|part| i16::try_from(part).is_err()) {
        let message = format!("'{name}' is between -32768 and 32767");
        return Err(Error::server(31034, message));
    }
    Ok(part)
}

fn whole(name: &str, value: &Value<'_>) -> Result<Option<i64>> {
    if value.is_nullish() {
        return Ok(None);
    }
    value
        .number()
        .and_then(Number::whole)
        .map(Some)
        .ok_or_else(|| {
            let found = value.type_name();
            let message = format!("'{name}' is a whole number, not a value of type {found}");
            Error::server(40515, message)
        })
}
