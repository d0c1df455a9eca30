//! Date operators.
//!
//! A date is a number of milliseconds in UTC. Local time comes from the time zone database that is
//! compiled into the program.
//!
//! MongoDB's dates exceed the range of years of date libraries, so the calendar is implemented
//! here.

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

use super::categories::OperatorRegistry;

pub(super) use calendar::CalendarDate;
pub(super) use format::format_iso;
pub(super) use parse::parse_date;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$dateAdd", date_add::parse_date_add),
    ("$dateDiff", date_diff::parse_date_diff),
    ("$dateFromParts", date_from_parts::parse_date_from_parts),
    ("$dateFromString", date_from_string::parse_date_from_string),
    ("$dateSubtract", date_add::parse_date_subtract),
    ("$dateToParts", date_to_parts::parse_date_to_parts),
    ("$dateToString", date_to_string::parse_date_to_string),
    ("$dateTrunc", date_trunc::parse_date_trunc),
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
