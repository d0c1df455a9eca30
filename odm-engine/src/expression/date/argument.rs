//! Conversion of operator arguments to dates and time zones.

use bson::RawBsonRef;

use super::calendar::SECOND_MILLIS;
use super::zone::DateZone;
use crate::expression::{Expression, Value, VariableScope};
use crate::{Error, Result};

/// Returns the instant of a date, a timestamp or an object id in milliseconds since 1970.
pub(in crate::expression) fn value_millis(value: &Value<'_>) -> Option<i64> {
    match value.as_bson()? {
        RawBsonRef::DateTime(date) => Some(date.timestamp_millis()),
        RawBsonRef::Timestamp(timestamp) => Some(i64::from(timestamp.time) * SECOND_MILLIS),
        RawBsonRef::ObjectId(id) => Some(id.timestamp().timestamp_millis()),
        _ => None,
    }
}

/// Returns the instant of a value as [`value_millis`] does, or an error.
///
/// # Errors
/// The value has no instant (code 16006).
pub(super) fn require_millis(value: &Value<'_>) -> Result<i64> {
    value_millis(value).ok_or_else(|| {
        let type_name = value.type_name();
        Error::with_server_code(16006, format!("a value of type {type_name} is not a date"))
    })
}

/// Evaluates an optional time zone argument. The default is UTC, and a null gives `None`.
///
/// # Errors
/// The value is not a string (code 40517) or names no time zone.
pub(super) fn evaluate_zone<'v>(
    argument: Option<&'v Expression>,
    scope: &VariableScope<'_, 'v>,
) -> Result<Option<DateZone>> {
    match argument {
        None => Ok(Some(DateZone::UTC)),
        Some(argument) => read_zone(&argument.evaluate(scope)?),
    }
}

/// Reads the time zone that a value names. `None` for null.
///
/// # Errors
/// See [`evaluate_zone`].
pub(super) fn read_zone(value: &Value<'_>) -> Result<Option<DateZone>> {
    if value.is_nullish() {
        return Ok(None);
    }
    let name = value.as_text().ok_or_else(|| {
        let message = format!("'timezone' must be a string, not {}", value.type_name());
        Error::with_server_code(40517, message)
    })?;
    DateZone::from_name(name).map(Some)
}
