//! `$dateAdd`, `$dateSubtract`: a date some units of time later or earlier. Days and longer units
//! go by the clocks of the time zone; a day that a month has not becomes its last one.
//!
//! ```text
//! { "$dateAdd": { "startDate": { "$date": "2024-01-31T12:00:00Z" }, "unit": "month", "amount": 1 } } → { "$date": "2024-02-29T12:00:00Z" }
//! { "$dateAdd": { "startDate": { "$date": "2024-10-26T12:00:00Z" }, "unit": "day", "amount": 1, "timezone": "Europe/Rome" } } → { "$date": "2024-10-27T13:00:00Z" }
//! { "$dateSubtract": { "startDate": { "$date": "2024-03-01T00:00:00Z" }, "unit": "hour", "amount": 1 } } → { "$date": "2024-02-29T23:00:00Z" }
//! { "$dateAdd": { "startDate": null, "unit": "day", "amount": 1 } } → null
//! ```

use bson::{DateTime, RawBson, RawBsonRef};

use super::argument::{millis, zone_of};
use super::unit::Unit;
use crate::error::code;
use crate::expression::call::{Call, FunctionOf};
use crate::expression::{Expression, Value};
use crate::value::Number;
use crate::{Error, Result};

/// More days than this MongoDB does not add, nor other units that are as long.
const MAX_DAYS: i64 = 213_503_982_334;

pub(super) fn parse(call: &Call<'_>) -> Result<Expression> {
    with(call, |operands| add(operands, Some))
}

pub(super) fn parse_subtract(call: &Call<'_>) -> Result<Expression> {
    with(call, |operands| add(operands, i64::checked_neg))
}

fn with(call: &Call<'_>, function: FunctionOf<4>) -> Result<Expression> {
    let known = &["amount", "startDate", "timezone", "unit"];
    let arguments = call.arguments(known, 5166400, 5166401)?;
    let operands = [
        arguments.required("startDate", 5166402)?,
        arguments.required("unit", 5166402)?,
        arguments.required("amount", 5166402)?,
        arguments.optional_or("timezone", RawBsonRef::String("UTC"))?,
    ];
    call.function(operands, function)
}

fn add<'v>(operands: [Value<'v>; 4], signed: fn(i64) -> Option<i64>) -> Result<Value<'v>> {
    let [date, unit, amount, zone] = &operands;
    if date.is_nullish() || unit.is_nullish() || amount.is_nullish() {
        return Ok(Value::NULL);
    }
    let Some(zone) = zone_of(zone)? else {
        return Ok(Value::NULL);
    };
    let date = millis(date).ok_or_else(|| {
        let message = format!("'startDate' is a date, not {}", date.type_name());
        Error::server(5166403, message)
    })?;
    let unit = unit.text().ok_or_else(|| {
        let message = format!("'unit' is a string, not {}", unit.type_name());
        Error::server(5166404, message)
    })?;
    let unit = Unit::find(unit).ok_or_else(|| {
        let message = format!("'{unit}' is no unit of time");
        Error::server(code::FAILED_TO_PARSE, message)
    })?;
    let amount = amount.number().and_then(Number::whole).ok_or_else(|| {
        let message = "'amount' is a whole number of 64 bits";
        Error::server(5166405, message)
    })?;
    let amount = signed(amount).ok_or_else(|| {
        let message = "'amount' is the smallest number, which has no opposite";
        Error::server(6045000, message)
    })?;
    if amount.unsigned_abs() > most(unit).unsigned_abs() {
        let message = format!("'amount' is out of range: {amount}");
        return Err(Error::server(5976500, message));
    }
    let moved = unit.add(date, amount, &zone).ok_or_else(|| {
        let code = match unit {
            Unit::Millisecond => code::DURATION_OVERFLOW,
            _ => 5166406,
        };
        Error::server(code, "the date is out of range")
    })?;
    Ok(RawBson::DateTime(DateTime::from_millis(moved)).into())
}

/// How many units MongoDB adds at most.
fn most(unit: Unit) -> i64 {
    match unit {
        Unit::Year => (MAX_DAYS + 1) / 365,
        Unit::Quarter => 2_339_769_671,
        Unit::Month => 7_019_309_015,
        Unit::Week => MAX_DAYS / 7,
        Unit::Day => MAX_DAYS,
        Unit::Hour => (MAX_DAYS + 1) * 24 - 1,
        Unit::Minute => (MAX_DAYS + 1) * 24 * 60 - 1,
        Unit::Second => (MAX_DAYS + 1) * 24 * 60 * 60 - 1,
        Unit::Millisecond => i64::MAX,
    }
}
