//! `$dateDiff`: the number of unit boundaries between two dates in local time. Weeks begin on
//! Sunday or on `startOfWeek`.
//!
//! ```text
//! { "$dateDiff": { "startDate": { "$date": "2023-12-31T23:59:00Z" }, "endDate": { "$date": "2024-01-01T00:00:00Z" }, "unit": "year" } } → { "$numberLong": "1" }
//! { "$dateDiff": { "startDate": { "$date": "2024-01-05T00:00:00Z" }, "endDate": { "$date": "2024-01-08T00:00:00Z" }, "unit": "week", "startOfWeek": "monday" } } → { "$numberLong": "1" }
//! { "$dateDiff": { "startDate": null, "endDate": null, "unit": "day" } } → null
//! ```

use bson::RawBsonRef;

use super::argument::{read_zone, value_millis};
use super::calendar::CalendarDate;
use super::unit::{TimeUnit, start_of_week};
use super::zone::DateZone;
use crate::expression::call::OperatorCall;
use crate::expression::{Expression, Value};
use crate::{Error, Result};

pub(super) fn parse_date_diff(call: &OperatorCall<'_>) -> Result<Expression> {
    let known = &["endDate", "startDate", "startOfWeek", "timezone", "unit"];
    let arguments = call.named_arguments(known, 5166301, 5166302)?;
    let operands = [
        arguments.required_expression("startDate", 5166303)?,
        arguments.required_expression("endDate", 5166304)?,
        arguments.required_expression("unit", 5166305)?,
        arguments.expression_or("timezone", RawBsonRef::String("UTC"))?,
        arguments.expression_or("startOfWeek", RawBsonRef::String("sunday"))?,
    ];
    call.fixed_function(operands, date_diff)
}

fn date_diff(operands: [Value<'_>; 5]) -> Result<Value<'_>> {
    let [start, end, unit, zone, first_day] = &operands;
    let is_week = unit.as_text() == Some("week");
    if start.is_nullish()
        || end.is_nullish()
        || unit.is_nullish()
        || (is_week && first_day.is_nullish())
    {
        return Ok(Value::NULL);
    }
    let Some(zone) = read_zone(zone)? else {
        return Ok(Value::NULL);
    };
    let instant = |value: &Value<'_>, name| {
        value_millis(value).ok_or_else(|| {
            let type_name = value.type_name();
            Error::with_server_code(5166307, format!("'{name}' must be a date, not {type_name}"))
        })
    };
    let (start, end) = (instant(start, "startDate")?, instant(end, "endDate")?);
    let unit = TimeUnit::from_value(unit)?;
    let first_day = if is_week {
        start_of_week(first_day)?
    } else {
        7
    };
    let difference = unit_difference(start, end, unit, &zone, first_day).ok_or_else(|| {
        Error::with_server_code(5166308, "the difference of the dates is out of range")
    })?;
    Ok(difference.into())
}

/// Returns the difference in units. Weeks begin on `first_day`. `None` if the result is out of
/// range.
pub(super) fn unit_difference(
    start: i64,
    end: i64,
    unit: TimeUnit,
    zone: &DateZone,
    first_day: i64,
) -> Option<i64> {
    if unit == TimeUnit::Millisecond {
        return end.checked_sub(start);
    }
    let (from, to) = (zone.to_local(start), zone.to_local(end));
    if let Some(millis) = unit.fixed_millis() {
        // A change of the UTC offset between the dates does not count, as far as the change is a
        // whole number of units.
        let changed = (zone.offset_at(end) - zone.offset_at(start)) / millis;
        return Some(to.div_euclid(millis) - from.div_euclid(millis) - changed);
    }
    let (from, to) = (
        CalendarDate::from_millis(from),
        CalendarDate::from_millis(to),
    );
    let number = |date: &CalendarDate| match unit.month_count() {
        Some(months) => (date.year * 12 + i64::from(date.month) - 1).div_euclid(months),
        // 1969-12-29 was a Monday.
        None if unit == TimeUnit::Week => (date.days_since_epoch() + 4 - first_day).div_euclid(7),
        None => date.days_since_epoch(),
    };
    Some(number(&to) - number(&from))
}
