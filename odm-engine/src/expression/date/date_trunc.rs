//! `$dateTrunc`: the beginning of the unit of time that a date is in, by the clocks of a time zone;
//! of several units, `binSize` of them, counted from 2000 on.
//!
//! ```text
//! { "$dateTrunc": { "date": { "$date": "2024-05-17T10:20:30Z" }, "unit": "month" } } → { "$date": "2024-05-01T00:00:00Z" }
//! { "$dateTrunc": { "date": { "$date": "2024-05-17T10:20:30Z" }, "unit": "hour", "binSize": 4 } } → { "$date": "2024-05-17T08:00:00Z" }
//! { "$dateTrunc": { "date": { "$date": "2024-05-17T10:20:30Z" }, "unit": "week", "startOfWeek": "monday" } } → { "$date": "2024-05-13T00:00:00Z" }
//! { "$dateTrunc": { "date": null, "unit": "day" } } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use super::argument::{millis, zone_of};
use super::calendar::{DAY, days_of};
use super::date_diff::difference;
use super::unit::{Unit, start_of_week};
use super::zone::Zone;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

/// How many days or longer units at most make one bin.
const MAX_BIN: i64 = 100_000_000_000;

const OUT_OF_RANGE: &str = "the beginning of the bin is out of range";

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let known = &["binSize", "date", "startOfWeek", "timezone", "unit"];
    let arguments = call.arguments(known, 5439007, 5439008)?;
    let operands = [
        arguments.required("date", 5439009)?,
        arguments.required("unit", 5439010)?,
        arguments.optional_or("binSize", RawBsonRef::Int32(1))?,
        arguments.optional_or("timezone", RawBsonRef::String("UTC"))?,
        arguments.optional_or("startOfWeek", RawBsonRef::String("sunday"))?,
    ];
    call.function(operands, date_trunc)
}

fn date_trunc(operands: [Value<'_>; 5]) -> Result<Value<'_>> {
    let [date, unit, bin, zone, first_day] = &operands;
    let is_week = unit.text() == Some("week");
    if date.is_nullish()
        || unit.is_nullish()
        || bin.is_nullish()
        || (is_week && first_day.is_nullish())
    {
        return Ok(Value::NULL);
    }
    let Some(zone) = zone_of(zone)? else {
        return Ok(Value::NULL);
    };
    let date = millis(date).ok_or_else(|| {
        let message = format!("'date' is a date, not {}", date.type_name());
        Error::server(5439012, message)
    })?;
    let unit = Unit::of(unit)?;
    let bin = bin_size(bin)?;
    let first_day = if is_week {
        start_of_week(first_day)?
    } else {
        7
    };
    let start = truncate(date, unit, bin, &zone, first_day)?;
    Ok(RawBson::DateTime(DateTime::from_millis(start)).into())
}

fn bin_size(value: &Value<'_>) -> Result<i64> {
    let size = value.number().and_then(Number::whole).ok_or_else(|| {
        let message = "'binSize' is a whole number of 64 bits";
        Error::server(5439017, message)
    })?;
    if size <= 0 {
        let message = format!("'binSize' is greater than zero, not {size}");
        return Err(Error::server(5439018, message));
    }
    Ok(size)
}

fn truncate(date: i64, unit: Unit, bin: i64, zone: &Zone, first_day: i64) -> Result<i64> {
    let overflow = |code| move || Error::server(code, OUT_OF_RANGE);
    // Weeks are counted from the first one that begins in 2000.
    let day = match unit {
        Unit::Week => 1 + (first_day - 6).rem_euclid(7),
        _ => 1,
    };
    let origin = zone.instant(days_of(2000, 1, day) * DAY, None);
    if let Some(millis) = unit.millis() {
        let bin = bin.checked_mul(millis).ok_or_else(overflow(5439002))?;
        let distance = date.checked_sub(origin).ok_or_else(overflow(5439000))?;
        return date
            .checked_sub(distance.rem_euclid(bin))
            .ok_or_else(overflow(5439000));
    }
    if bin > MAX_BIN {
        return Err(Error::server(5439006, "'binSize' is out of range"));
    }
    let distance = difference(origin, date, unit, zone, first_day).ok_or_else(overflow(5166406))?;
    let distance = distance - distance.rem_euclid(bin);
    let start = unit
        .add(origin, distance, zone)
        .ok_or_else(overflow(5166406))?;
    // Clocks that change at midnight can put the beginning behind the date.
    if start > date {
        return unit
            .add(origin, distance - bin, zone)
            .ok_or_else(overflow(5166406));
    }
    Ok(start)
}
