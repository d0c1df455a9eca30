//! Formatting of dates.

use std::fmt::Write;

use bson::DateTime;

use super::calendar::{CalendarDate, MINUTE_MILLIS};
use super::zone::DateZone;
use crate::{Error, Result};

/// The ISO 8601 format in UTC.
pub(super) const ISO_FORMAT: &str = "%Y-%m-%dT%H:%M:%S.%LZ";

/// The specifiers that formatting supports, and the specifiers that parsing supports.
pub(super) const FORMAT_SPECIFIERS: &str = "dGHjLmMSuUVwYzZ%";
pub(super) const PARSE_SPECIFIERS: &str = "dGHLmMSuVYzZ%";

/// Formats a date in ISO 8601 in UTC.
///
/// # Errors
/// The year is not between 0 and 9999 (code 18537).
pub(in crate::expression) fn format_iso(date: DateTime) -> Result<String> {
    format_date(date.timestamp_millis(), ISO_FORMAT, &DateZone::UTC)
}

/// Formats a date in a time zone.
///
/// # Errors
/// A year is not between 0 and 9999 (code 18537), or the format is invalid.
pub(super) fn format_date(instant: i64, format: &str, zone: &DateZone) -> Result<String> {
    check_format(format, FORMAT_SPECIFIERS)?;
    let date = CalendarDate::from_millis(zone.to_local(instant));
    let minutes = zone.offset_at(instant) / MINUTE_MILLIS;
    let year = |year: i64| {
        if (0..=9999).contains(&year) {
            return Ok(year);
        }
        let message = format!("cannot format the year {year}: years must be between 0 and 9999");
        Err(Error::with_server_code(18537, message))
    };
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        // Writing to a string cannot fail.
        let _ = match (c, rest.as_str().chars().next()) {
            ('%', Some(specifier)) => {
                rest.next();
                match specifier {
                    'd' => write!(text, "{:02}", date.day),
                    'G' => write!(text, "{:04}", year(date.iso_week().0)?),
                    'H' => write!(text, "{:02}", date.hour),
                    'j' => write!(text, "{:03}", date.day_of_year()),
                    'L' => write!(text, "{:03}", date.millisecond),
                    'm' => write!(text, "{:02}", date.month),
                    'M' => write!(text, "{:02}", date.minute),
                    'S' => write!(text, "{:02}", date.second),
                    'u' => write!(text, "{}", date.iso_day_of_week()),
                    'U' => write!(text, "{:02}", date.week_of_year()),
                    'V' => write!(text, "{:02}", date.iso_week().1),
                    'w' => write!(text, "{}", date.day_of_week()),
                    'Y' => write!(text, "{:04}", year(date.year)?),
                    'z' => {
                        let sign = if minutes < 0 { '-' } else { '+' };
                        let minutes = minutes.unsigned_abs();
                        write!(text, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
                    }
                    'Z' => write!(text, "{minutes}"),
                    other => write!(text, "{other}"),
                }
            }
            (c, _) => write!(text, "{c}"),
        };
    }
    Ok(text)
}

/// Checks that a format uses only the given specifiers.
///
/// # Errors
/// An unknown specifier (code 18536), or a `%` at the end (code 18535).
pub(super) fn check_format(format: &str, specifiers: &str) -> Result<()> {
    let mut rest = format.chars();
    while rest.by_ref().any(|c| c == '%') {
        match rest.next() {
            None => {
                let message = format!("the format '{format}' ends with a '%'");
                return Err(Error::with_server_code(18535, message));
            }
            Some(specifier) if !specifiers.contains(specifier) => {
                let message = format!("unknown specifier '%{specifier}' in the format '{format}'");
                return Err(Error::with_server_code(18536, message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
