//! `$dateDiff`: how many times a new unit of time begins between two dates, by the clocks of a time
//! zone. Weeks begin with Sunday, or with `startOfWeek`.
//!
//! ```text
//! { "$dateDiff": { "startDate": { "$date": "2023-12-31T23:59:00Z" }, "endDate": { "$date": "2024-01-01T00:00:00Z" }, "unit": "year" } } → { "$numberLong": "1" }
//! { "$dateDiff": { "startDate": { "$date": "2024-01-05T00:00:00Z" }, "endDate": { "$date": "2024-01-08T00:00:00Z" }, "unit": "week", "startOfWeek": "monday" } } → { "$numberLong": "1" }
//! { "$dateDiff": { "startDate": null, "endDate": null, "unit": "day" } } → null
//! ```

use bson::RawBsonRef;

use super::argument::{millis, zone_of};
use super::calendar::Calendar;
use super::unit::{Unit, start_of_week};
use super::zone::Zone;
use crate::expression::call::Call;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    let known = &["endDate", "startDate", "startOfWeek", "timezone", "unit"];
    let arguments = call.arguments(known, 5166301, 5166302)?;
    let operands = [
        arguments.required("startDate", 5166303)?,
        arguments.required("endDate", 5166304)?,
        arguments.required("unit", 5166305)?,
        arguments.optional_or("timezone", RawBsonRef::String("UTC"))?,
        arguments.optional_or("startOfWeek", RawBsonRef::String("sunday"))?,
    ];
    call.function(operands, date_diff)
}

fn date_diff(operands: [Value<'_>; 5]) -> Result<Value<'_>> {
    let [start, end, unit, zone, first_day] = &operands;
    let is_week = unit.text() == Some("week");
    if start.is_nullish()
        || end.is_nullish()
        || unit.is_nullish()
        || (is_week && first_day.is_nullish())
    {
        return Ok(Value::NULL);
    }
    let Some(zone) = zone_of(zone)? else {
        return Ok(Value::NULL);
    };
    let instant = |value: &Value<'_>, name| {
        millis(value).ok_or_else(|| {
            let found = value.type_name();
            Error::server(5166307, format!("'{name}' is a date, not {found}"))
        })
    };
    let (start, end) = (instant(start, "startDate")?, instant(end, "endDate")?);
    let unit = Unit::of(unit)?;
    let first_day = if is_week {
        start_of_week(first_day)?
    } else {
        7
    };
    let difference = difference(start, end, unit, &zone, first_day)
        .ok_or_else(|| Error::server(5166308, "the difference of the dates is out of range"))?;
    Ok(difference.into())
}

/// The difference in units; weeks begin with `first_day`. `None` if it is out of range.
pub(super) fn difference(
    start: i64,
    end: i64,
    unit: Unit,
    zone: &Zone,
    first_day: i64,
) -> Option<i64> {
    if unit == Unit::Millisecond {
        return end.checked_sub(start);
    }
    let (from, to) = (zone.local(start), zone.local(end));
    if let Some(millis) = unit.millis() {
        // Clocks that were changed in between do not count, as far as they were by whole units.
        let changed = (zone.offset_at(end) - zone.offset_at(start)) / millis;
        return Some(to.div_euclid(millis) - from.div_euclid(millis) - changed);
    }
    let (from, to) = (Calendar::from_millis(from), Calendar::from_millis(to));
    let number = |date: &Calendar| match unit.months() {
        Some(months) => (date.year * 12 + i64::from(date.month) - 1).div_euclid(months),
        // 1969-12-29 was a Monday.
        None if unit == Unit::Week => (date.days() + 4 - first_day).div_euclid(7),
        None => date.days(),
    };
    Some(number(&to) - number(&from))
}
