//! `$dateAdd`, `$dateSubtract`: a date moved by a number of time units. Days and longer units
//! follow the local time of the time zone.
//!
//! A day that does not exist in the target month becomes the last day of that month.
//!
//! ```text
//! { "$dateAdd": { "startDate": { "$date": "2024-01-31T12:00:00Z" }, "unit": "month", "amount": 1 } } → { "$date": "2024-02-29T12:00:00Z" }
//! { "$dateAdd": { "startDate": { "$date": "2024-10-26T12:00:00Z" }, "unit": "day", "amount": 1, "timezone": "Europe/Rome" } } → { "$date": "2024-10-27T13:00:00Z" }
//! { "$dateSubtract": { "startDate": { "$date": "2024-03-01T00:00:00Z" }, "unit": "hour", "amount": 1 } } → { "$date": "2024-02-29T23:00:00Z" }
//! { "$dateAdd": { "startDate": null, "unit": "day", "amount": 1 } } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use super::argument::{read_zone, value_millis};
use super::unit::TimeUnit;
use crate::error::code;
use crate::expression::call::{FunctionOf, OperatorCall};
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

/// The maximum distance in days that MongoDB adds. Other units are limited to the same span.
const MAX_ADDED_DAYS: i64 = 213_503_982_334;

pub(super) fn parse_date_add(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_with(call, |operands| add_to_date(operands, Some))
}

pub(super) fn parse_date_subtract(call: &OperatorCall<'_>) -> Result<Expression> {
    parse_with(call, |operands| add_to_date(operands, i64::checked_neg))
}

fn parse_with(call: &OperatorCall<'_>, function: FunctionOf<4>) -> Result<Expression> {
    let known = &["amount", "startDate", "timezone", "unit"];
    let arguments = call.named_arguments(known, 5166400, 5166401)?;
    let operands = [
        arguments.required_expression("startDate", 5166402)?,
        arguments.required_expression("unit", 5166402)?,
        arguments.required_expression("amount", 5166402)?,
        arguments.expression_or("timezone", RawBsonRef::String("UTC"))?,
    ];
    call.fixed_function(operands, function)
}

fn add_to_date<'v>(operands: [Value<'v>; 4], signed: fn(i64) -> Option<i64>) -> Result<Value<'v>> {
    let [date, unit, amount, zone] = &operands;
    if date.is_nullish() || unit.is_nullish() || amount.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(zone) = read_zone(zone)? else {
        return Ok(Value::NULL);
    };
    let date = value_millis(date).ok_or_else(|| {
        let message = format!("'startDate' must be a date, not {}", date.type_name());
        Error::with_server_code(5166403, message)
    })?;
    let unit = unit.as_text().ok_or_else(|| {
        let message = format!("'unit' must be a string, not {}", unit.type_name());
        Error::with_server_code(5166404, message)
    })?;
    let unit = TimeUnit::from_name(unit).ok_or_else(|| {
        let message = format!("unknown time unit '{unit}'");
        Error::with_server_code(code::FAILED_TO_PARSE, message)
    })?;
    let amount = amount
        .as_number()
        .and_then(Number::whole_long)
        .ok_or_else(|| {
            let message = "'amount' must be a whole number of 64 bits";
            Error::with_server_code(5166405, message)
        })?;
    let amount = signed(amount).ok_or_else(|| {
        let message = "'amount' cannot be negated: the smallest long has no opposite";
        Error::with_server_code(6045000, message)
    })?;
    if amount.unsigned_abs() > max_amount(unit).unsigned_abs() {
        let message = format!("'amount' is out of range: {amount}");
        return Err(Error::with_server_code(5976500, message));
    }
    let result = unit.add_to_instant(date, amount, &zone).ok_or_else(|| {
        let code = match unit {
            TimeUnit::Millisecond => code::DURATION_OVERFLOW,
            _ => 5166406,
        };
        Error::with_server_code(code, "the date is out of range")
    })?;
    Ok(RawBson::DateTime(DateTime::from_millis(result)).into())
}

/// Returns the maximum number of units that MongoDB adds.
fn max_amount(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Year => (MAX_ADDED_DAYS + 1) / 365,
        TimeUnit::Quarter => 2_339_769_671,
        TimeUnit::Month => 7_019_309_015,
        TimeUnit::Week => MAX_ADDED_DAYS / 7,
        TimeUnit::Day => MAX_ADDED_DAYS,
        TimeUnit::Hour => (MAX_ADDED_DAYS + 1) * 24 - 1,
        TimeUnit::Minute => (MAX_ADDED_DAYS + 1) * 24 * 60 - 1,
        TimeUnit::Second => (MAX_ADDED_DAYS + 1) * 24 * 60 * 60 - 1,
        TimeUnit::Millisecond => i64::MAX,
    }
}
