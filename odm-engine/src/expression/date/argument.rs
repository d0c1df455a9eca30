//! Values as dates and time zones.

use bson::RawBsonRef;

use super::calendar::SECOND;
use super::zone::Zone;
use crate::expression::{Expression, Scope, Value};
use crate::{Error, Result};

/// The instant of a date, a timestamp or an object id, in milliseconds since 1970.
pub(in crate::expression) fn millis(value: &Value<'_>) -> Option<i64> {
    match value.as_bson()? {
        RawBsonRef::DateTime(date) => Some(date.timestamp_millis()),
        RawBsonRef::Timestamp(timestamp) => Some(i64::from(timestamp.time) * SECOND),
        RawBsonRef::ObjectId(id) => Some(id.timestamp().timestamp_millis()),
        _ => None,
    }
}

/// As [`millis`].
///
/// # Errors
/// Other values (code 16006).
pub(super) fn instant(value: &Value<'_>) -> Result<i64> {
    millis(value).ok_or_else(|| {
        let found = value.type_name();
        Error::server(16006, format!("a value of type {found} is no date"))
    })
}

/// The time zone that an argument gives: UTC without one, `None` if it is null.
///
/// # Errors
/// It is no string (code 40517) or names no time zone.
pub(super) fn zone<'v>(
    argument: Option<&'v Expression>,
    scope: &Scope<'_, 'v>,
) -> Result<Option<Zone>> {
    match argument {
        None => Ok(Some(Zone::UTC)),
        Some(argument) => zone_of(&argument.evaluate(scope)?),
    }
}

/// The time zone that a value names, `None` if it is null.
///
/// # Errors
/// As [`zone`].
pub(super) fn zone_of(value: &Value<'_>) -> Result<Option<Zone>> {
    if value.is_nullish() {
        return Ok(None);
    }
    let name = value.text().ok_or_else(|| {
        let message = format!("'timezone' is a string, not {}", value.type_name());
        Error::server(40517, message)
    })?;
    Zone::find(name).map(Some)
}
