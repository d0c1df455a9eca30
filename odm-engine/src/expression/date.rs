//! Dates.
//!
//! A date is a number of milliseconds in UTC. What it is locally depends on a time zone, from the
//! database of them that the program brings with it. MongoDB's dates go far beyond the years that
//! libraries count, so the calendar is our own.

mod argument;
mod calendar;
mod date_add;
mod date_diff;
mod date_from_parts;
mod date_from_string;
mod date_to_parts;
mod date_to_string;
mod date_trunc;
mod format;
mod parse;
mod parse_format;
mod unit;
mod year;
mod zone;

use super::categories::Registry;

pub(super) use calendar::Calendar;
pub(super) use format::format_iso;
pub(super) use parse::read_date;

pub(super) const OPERATORS: Registry = &[
    ("$dateAdd", date_add::parse),
    ("$dateDiff", date_diff::parse),
    ("$dateFromParts", date_from_parts::parse),
    ("$dateFromString", date_from_string::parse),
    ("$dateSubtract", date_add::parse_subtract),
    ("$dateToParts", date_to_parts::parse),
    ("$dateToString", date_to_string::parse),
    ("$dateTrunc", date_trunc::parse),
    ("$dayOfMonth", year::parse_day_of_month),
    ("$dayOfWeek", year::parse_day_of_week),
    ("$dayOfYear", year::parse_day_of_year),
    ("$hour", year::parse_hour),
    ("$isoDayOfWeek", year::parse_iso_day_of_week),
    ("$isoWeek", year::parse_iso_week),
    ("$isoWeekYear", year::parse_iso_week_year),
    ("$millisecond", year::parse_millisecond),
    ("$minute", year::parse_minute),
    ("$month", year::parse_month),
    ("$second", year::parse_second),
    ("$week", year::parse_week),
    ("$year", year::parse),
];
