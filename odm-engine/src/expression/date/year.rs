//! `$year`, `$month`, `$dayOfMonth`, `$hour`, `$minute`, `$second`, `$millisecond`, `$dayOfYear`,
//! `$dayOfWeek`, `$week`, `$isoDayOfWeek`, `$isoWeek`, `$isoWeekYear`: a part of a date, in UTC or
//! in a time zone.
//!
//! ```text
//! { "$year": { "$date": "2024-12-30T23:59:58.007Z" } } → 2024
//! { "$month": { "$date": "2024-12-30T23:59:58.007Z" } } → 12
//! { "$dayOfMonth": { "$date": "2024-12-30T23:59:58.007Z" } } → 30
//! { "$dayOfMonth": { "date": { "$date": "2024-12-30T23:59:58.007Z" }, "timezone": "Europe/Rome" } } → 31
//! { "$hour": { "$date": "2024-12-30T23:59:58.007Z" } } → 23
//! { "$minute": { "$date": "2024-12-30T23:59:58.007Z" } } → 59
//! { "$second": { "$date": "2024-12-30T23:59:58.007Z" } } → 58
//! { "$millisecond": { "$date": "2024-12-30T23:59:58.007Z" } } → 7
//! { "$dayOfYear": { "$date": "2024-12-30T23:59:58.007Z" } } → 365
//! { "$dayOfWeek": { "$date": "2024-12-30T23:59:58.007Z" } } → 2
//! { "$week": { "$date": "2024-12-30T23:59:58.007Z" } } → 52
//! { "$isoDayOfWeek": { "$date": "2024-12-30T23:59:58.007Z" } } → 1
//! { "$isoWeek": { "$date": "2024-12-30T23:59:58.007Z" } } → 1
//! { "$isoWeekYear": { "$date": "2024-12-30T23:59:58.007Z" } } → { "$numberLong": "2025" }
//! { "$year": null } → null
//! ```

use bson::RawBsonRef;

use super::argument::require_millis;
use super::calendar::CalendarDate;
use super::zone::DateZone;
use crate::expression::call::{FunctionOf, OperatorCall};
use crate::expression::{Expression, Value};
use crate::{Error, Result, value};

/// The default of `timezone`.
const DEFAULT_ZONE: RawBsonRef<'_> = RawBsonRef::String("UTC");

macro_rules! parts {
    ($($name:ident => $part:expr;)*) => {$(
        pub(super) fn $name(call: &OperatorCall<'_>) -> Result<Expression> {
            with(call, |operands| part(operands, $part))
        }
    )*};
}

parts! {
    parse => |date| int(date.year);
    parse_month => |date| int(date.month);
    parse_day_of_month => |date| int(date.day);
    parse_hour => |date| int(date.hour);
    parse_minute => |date| int(date.minute);
    parse_second => |date| int(date.second);
    parse_millisecond => |date| int(date.millisecond);
    parse_day_of_year => |date| int(date.day_of_year());
    parse_day_of_week => |date| int(date.day_of_week());
    parse_week => |date| int(date.week_of_year());
    parse_iso_day_of_week => |date| int(date.iso_day_of_week());
    parse_iso_week => |date| int(date.iso_week().1);
    parse_iso_week_year => |date| date.iso_week().0.into();
}

/// All parts fit into 32 bits, including the years of the first and the last date.
fn int(part: impl Into<i64>) -> Value<'static> {
    i32::try_from(part.into()).unwrap_or_default().into()
}

fn with(call: &OperatorCall<'_>, function: FunctionOf<2>) -> Result<Expression> {
    let default = || Expression::Constant(Some(DEFAULT_ZONE.into()));
    let operands = match call.operand {
        // A document holds named arguments unless its first field is an operator.
        RawBsonRef::Document(document)
            if value::fields(document)
                .next()
                .is_none_or(|(name, _)| !name.starts_with('$')) =>
        {
            let arguments = call.named_arguments(&["date", "timezone"], 40535, 40535)?;
            [
                arguments.required_expression("date", 40539)?,
                arguments.expression_or("timezone", DEFAULT_ZONE)?,
            ]
        }
        RawBsonRef::Array(array) => {
            let count = value::items(array).count();
            match value::items(array).next().filter(|_| count == 1) {
                Some(date) => [call.parse_operand(date)?, default()],
                None => {
                    let name = call.name;
                    let message = format!("{name} takes one operand, not {count}");
                    return Err(Error::with_server_code(40536, message));
                }
            }
        }
        date => [call.parse_operand(date)?, default()],
    };
    call.fixed_function(operands, function)
}

fn part<'v>(
    operands: [Value<'v>; 2],
    part: fn(CalendarDate) -> Value<'static>,
) -> Result<Value<'v>> {
    let [date, zone] = &operands;
    if date.is_nullish() {
        return Ok(Value::NULL);
    }
    let instant = require_millis(date)?;
    if zone.is_nullish() {
        return Ok(Value::NULL);
    }
    let zone = zone.as_text().ok_or_else(|| {
        let message = format!("'timezone' must be a string, not {}", zone.type_name());
        Error::with_server_code(40533, message)
    })?;
    Ok(part(CalendarDate::from_millis(
        DateZone::from_name(zone)?.to_local(instant),
    )))
}
