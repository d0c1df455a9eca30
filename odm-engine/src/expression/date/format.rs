//! Dates as text.

use std::fmt::Write;

use bson::DateTime;

use super::calendar::{Calendar, MINUTE};
use super::zone::Zone;
use crate::{Error, Result};

/// The format of ISO 8601 in UTC.
pub(super) const ISO: &str = "%Y-%m-%dT%H:%M:%S.%LZ";

/// The specifiers that text can be made by, and those that it can be read by.
pub(super) const WRITABLE: &str = "dGHjLmMSuUVwYzZ%";
pub(super) const READABLE: &str = "dGHLmMSuVYzZ%";

/// A date in UTC, in the format of ISO 8601.
///
/// # Errors
/// Its year is not between 0 and 9999 (code 18537).
pub(in crate::expression) fn format_iso(date: DateTime) -> Result<String> {
    format(date.timestamp_millis(), ISO, &Zone::UTC)
}

/// A date in a time zone, as a format says.
///
/// # Errors
/// A year is not between 0 and 9999 (code 18537), or the format is none.
pub(super) fn format(instant: i64, format: &str, zone: &Zone) -> Result<String> {
    check(format, WRITABLE)?;
    let date = Calendar::from_millis(zone.local(instant));
    let minutes = zone.offset_at(instant) / MINUTE;
    let year = |year: i64| {
        if (0..=9999).contains(&year) {
            return Ok(year);
        }
        let message = format!("the text of a date has years from 0 to 9999, not {year}");
        Err(Error::server(18537, message))
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
                    'U' => write!(text, "{:02}", date.week()),
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

/// Refuses a format with other specifiers.
///
/// # Errors
/// An unknown specifier (code 18536), or a `%` at the end (code 18535).
pub(super) fn check(format: &str, specifiers: &str) -> Result<()> {
    let mut rest = format.chars();
    while rest.by_ref().any(|c| c == '%') {
        match rest.next() {
            None => {
                let message = format!("the format '{format}' ends with a '%'");
                return Err(Error::server(18535, message));
            }
            Some(specifier) if !specifiers.contains(specifier) => {
                let message = format!("the format '{format}' has an unknown '%{specifier}'");
                return Err(Error::server(18536, message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
