//! `$dateTrunc`: the start of the time unit that contains a date, in local time. With `binSize`,
//! the start of a bin of several units, counted from 2000.
//!
//! ```text
//! { "$dateTrunc": { "date": { "$date": "2024-05-17T10:20:30Z" }, "unit": "month" } } → { "$date": "2024-05-01T00:00:00Z" }
//! { "$dateTrunc": { "date": { "$date": "2024-05-17T10:20:30Z" }, "unit": "hour", "binSize": 4 } } → { "$date": "2024-05-17T08:00:00Z" }
//! { "$dateTrunc": { "date": { "$date": "2024-05-17T10:20:30Z" }, "unit": "week", "startOfWeek": "monday" } } → { "$date": "2024-05-13T00:00:00Z" }
//! { "$dateTrunc": { "date": null, "unit": "day" } } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use super::argument::{read_zone, value_millis};
use super::calendar::{DAY_MILLIS, days_of_date};
use super::date_diff::unit_difference;
use super::unit::{TimeUnit, start_of_week};
use super::zone::DateZone;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

/// The maximum number of days or longer units in one bin.
const MAX_BIN_UNITS: i64 = 100_000_000_000;

const OUT_OF_RANGE: &str = "the start of the bin is out of range";

pub(super) fn parse_date_trunc(call: &OperatorCall<'_>) -> Result<Expression> {
    let known = &["binSize", "date", "startOfWeek", "timezone", "unit"];
    let arguments = call.named_arguments(known, 5439007, 5439008)?;
    let operands = [
        arguments.required_expression("date", 5439009)?,
        arguments.required_expression("unit", 5439010)?,
        arguments.expression_or("binSize", RawBsonRef::Int32(1))?,
        arguments.expression_or("timezone", RawBsonRef::String("UTC"))?,
        arguments.expression_or("startOfWeek", RawBsonRef::String("sunday"))?,
    ];
    call.fixed_function(operands, date_trunc)
}

fn date_trunc(operands: [Value<'_>; 5]) -> Result<Value<'_>> {
    let [date, unit, bin, zone, first_day] = &operands;
    let is_week = unit.as_text() == Some("week");
    if date.is_nullish()
        || unit.is_nullish()
        || bin.is_nullish()
        || (is_week && first_day.is_nullish())
    {
        return Ok(Value::NULL);
    }
    let Some(zone) = read_zone(zone)? else {
        return Ok(Value::NULL);
    };
    let date = value_millis(date).ok_or_else(|| {
        let message = format!("'date' must be a date, not {}", date.type_name());
        Error::with_server_code(5439012, message)
    })?;
    let unit = TimeUnit::from_value(unit)?;
    let bin = read_bin_size(bin)?;
    let first_day = if is_week {
        start_of_week(first_day)?
    } else {
        7
    };
    let start = truncate_date(date, unit, bin, &zone, first_day)?;
    Ok(RawBson::DateTime(DateTime::from_millis(start)).into())
}

fn read_bin_size(value: &Value<'_>) -> Result<i64> {
    let size = value
        .as_number()
        .and_then(Number::whole_long)
        .ok_or_else(|| {
            let message = "'binSize' must be a whole number of 64 bits";
            Error::with_server_code(5439017, message)
        })?;
    if size <= 0 {
        let message = format!("'binSize' must be greater than zero, not {size}");
        return Err(Error::with_server_code(5439018, message));
    }
    Ok(size)
}

fn truncate_date(
    date: i64,
    unit: TimeUnit,
    bin: i64,
    zone: &DateZone,
    first_day: i64,
) -> Result<i64> {
    let overflow = |code| move || Error::with_server_code(code, OUT_OF_RANGE);
    // Weeks are counted from the first week that begins in 2000.
    let day = match unit {
        TimeUnit::Week => 1 + (first_day - 6).rem_euclid(7),
        _ => 1,
    };
    let origin = zone.to_instant(days_of_date(2000, 1, day) * DAY_MILLIS, None);
    if let Some(millis) = unit.fixed_millis() {
        let bin = bin.checked_mul(millis).ok_or_else(overflow(5439002))?;
        let distance = date.checked_sub(origin).ok_or_else(overflow(5439000))?;
        return date
            .checked_sub(distance.rem_euclid(bin))
            .ok_or_else(overflow(5439000));
    }
    if bin > MAX_BIN_UNITS {
        return Err(Error::with_server_code(
            5439006,
            "'binSize' is out of range",
        ));
    }
    let distance =
        unit_difference(origin, date, unit, zone, first_day).ok_or_else(overflow(5166406))?;
    let distance = distance - distance.rem_euclid(bin);
    let start = unit
        .add_to_instant(origin, distance, zone)
        .ok_or_else(overflow(5166406))?;
    // If clocks change at midnight, the computed start can lie after the date.
    if start > date {
        return unit
            .add_to_instant(origin, distance - bin, zone)
            .ok_or_else(overflow(5166406));
    }
    Ok(start)
}
