//! Parsing of dates in common text formats.
//!
//! A text is a sequence of items: date, time, time zone, weekday. At each place the longest
//! matching form wins. Of equally long matches, the first form wins.
//!
//! Forms relative to the present, such as `tomorrow`, are not supported.

use std::sync::LazyLock;

use bson::DateTime;
use regex::{Captures, Regex};

use super::calendar::{
    DAY_MILLIS, HOUR_MILLIS, MINUTE_MILLIS, SECOND_MILLIS, days_in_month, days_of_date,
    days_of_iso_week,
};
use super::zone::DateZone;
use crate::error::code;
use crate::{Error, Result};

/// The date parts found in a text.
#[derive(Debug, Default)]
pub(super) struct DateParts {
    pub(super) year: Option<i64>,
    pub(super) month: Option<i64>,
    pub(super) day: Option<i64>,
    /// The date given as an ISO 8601 week, in days since 1970. Excludes the three fields above.
    pub(super) iso_days: Option<i64>,
    /// Milliseconds since midnight.
    pub(super) time: Option<i64>,
    /// The offset of the named time zone from UTC in milliseconds.
    pub(super) offset: Option<i64>,
    /// From 1 for Monday. Selects the first such weekday on or after the date.
    weekday: Option<i64>,
}

/// Parses a date. The time zone is UTC unless the text names a zone.
///
/// # Errors
/// The text is not a date (code 241).
pub(in crate::expression) fn parse_date(text: &str) -> Result<DateTime> {
    let instant = parse_parts(text)?.to_instant(text, &DateZone::UTC)?;
    Ok(DateTime::from_millis(instant))
}

/// Parses a text into date parts.
///
/// # Errors
/// The text is not a date (code 241).
pub(super) fn parse_parts(text: &str) -> Result<DateParts> {
    if text.is_empty() {
        return Err(not_a_date("cannot parse an empty string as a date"));
    }
    let mut parts = DateParts::default();
    let mut rest = text.trim_start_matches(SEPARATORS);
    while !rest.is_empty() {
        let matches = DATE_ITEM_FORMS.iter().filter_map(|(pattern, read)| {
            let captures = pattern.captures(rest)?;
            let length = captures.get(0)?.len();
            Some((length, captures, read))
        });
        // `reduce` instead of `max_by_key`: of equally long matches the first must win.
        let longest = matches.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let Some((length, captures, read)) = longest.filter(|(length, ..)| *length > 0) else {
            return Err(not_a_date(&format!(
                "cannot parse '{text}' as a date: unexpected '{rest}'"
            )));
        };
        if read(&mut parts, &captures).is_none() {
            return Err(not_a_date(&format!(
                "cannot parse '{text}' as a date: invalid or repeated part at '{rest}'"
            )));
        }
        rest = rest.get(length..).unwrap_or_default();
        rest = rest.trim_start_matches(SEPARATORS);
    }
    Ok(parts)
}

pub(super) fn not_a_date(message: &str) -> Error {
    Error::with_server_code(code::CONVERSION_FAILURE, message)
}

impl DateParts {
    pub(super) fn has_offset(&self) -> bool {
        self.offset.is_some()
    }

    /// Returns the instant in `zone`, unless the text names its own time zone.
    ///
    /// # Errors
    /// The date is incomplete or does not exist (code 241).
    pub(super) fn to_instant(&self, text: &str, zone: &DateZone) -> Result<i64> {
        let days = match (self.iso_days, self.year, self.month, self.day) {
            (Some(days), ..) => days,
            (None, Some(year), Some(month), Some(day)) => {
                let exists =
                    (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
                if !exists {
                    return Err(not_a_date(&format!("the date '{text}' does not exist")));
                }
                days_of_date(year, month, day)
            }
            _ => {
                return Err(not_a_date(&format!(
                    "the date '{text}' is incomplete: year, month and day are required"
                )));
            }
        };
        // 1970-01-01 was a Thursday.
        let weekday = (days + 3).rem_euclid(7) + 1;
        let day_offset = self
            .weekday
            .map_or(0, |target_day| (target_day - weekday).rem_euclid(7));
        let local = (days + day_offset) * DAY_MILLIS + self.time.unwrap_or(0);
        Ok(match self.offset {
            Some(offset) => local - offset,
            None => zone.to_instant(local, None),
        })
    }

    fn set_date(&mut self, year: Option<i64>, month: i64, day: i64) -> Option<()> {
        if self.year.is_some() || self.month.is_some() || self.iso_days.is_some() {
            return None;
        }
        (self.year, self.month, self.day) = (year, Some(month), Some(day));
        Some(())
    }

    fn set_time(&mut self, time: i64) -> Option<()> {
        self.time.replace(time).is_none().then_some(())
    }

    pub(super) fn set_offset(&mut self, offset: i64) -> Option<()> {
        self.offset.replace(offset).is_none().then_some(())
    }
}

/// Reads a time zone from the start of a text: an offset or an abbreviation. Also returns the
/// remaining text.
pub(super) fn leading_zone(text: &str) -> Option<(i64, &str)> {
    let captures = ZONE.as_ref()?.captures(text)?;
    let rest = text.get(captures.get(0)?.len()..)?;
    Some((captured_offset(&captures)?, rest))
}

/// The characters allowed between items.
const SEPARATORS: [char; 5] = [' ', '\t', '\n', ',', '.'];

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Abbreviations of time zones with their offsets from UTC in minutes. Ambiguous abbreviations are
/// left out.
const ABBREVIATIONS: &[(&str, i64)] = &[
    ("acdt", 630),
    ("acst", 570),
    ("aedt", 660),
    ("aest", 600),
    ("akdt", -480),
    ("akst", -540),
    ("awst", 480),
    ("bst", 60),
    ("cdt", -300),
    ("cest", 120),
    ("cet", 60),
    ("cst", -360),
    ("edt", -240),
    ("eest", 180),
    ("eet", 120),
    ("est", -300),
    ("gmt", 0),
    ("hst", -600),
    ("ist", 120),
    ("jst", 540),
    ("mdt", -360),
    ("msk", 180),
    ("mst", -420),
    ("nzdt", 780),
    ("nzst", 720),
    ("pdt", -420),
    ("pst", -480),
    ("utc", 0),
    ("west", 60),
    ("wet", 0),
];

type ReadForm = fn(&mut DateParts, &Captures<'_>) -> Option<()>;

/// The supported forms of items. `{y}`, `{m}` and so on are placeholders that [`compile_form`]
/// replaces.
static DATE_ITEM_FORMS: LazyLock<Vec<(Regex, ReadForm)>> = LazyLock::new(|| {
    let forms: [(&str, ReadForm); 30] = [
        // Times come first: of equally long matches, the time is the intended meaning.
        (
            r"(?<h>1[0-2]|0?[1-9])(?:[:.]{i}(?:[:.]{s})?)?\s*(?<pm>[ap])\.?m\b\.?",
            read_twelve_hours,
        ),
        (
            r"t?{h}[:.]{i}(?:[:.]{s}(?:\.(?<f>\d+))?)?(?:\s*{zone})?",
            read_time,
        ),
        (r"t{h}(?:\s*{zone})?", read_time),
        (
            r"t(?<h>\d\d)(?<i>[0-5]\d)(?<s>[0-5]\d)?(?:\.(?<f>\d+))?(?:\s*{zone})?",
            read_time,
        ),
        (
            r"(?<h>\d\d)(?<i>[0-5]\d)(?<s>[0-5]\d)(?:\s*{zone})?",
            read_time,
        ),
        (
            r"(?<y>[+-]?\d{4})-(?<m>0\d|1[0-2])-(?<d>[0-2]\d|3[01])",
            read_date_form,
        ),
        (r"(?<y>\d{1,4})-{m}-{d}", read_date_form),
        (r"(?<y>\d{4})/{m}/{d}/?", read_date_form),
        (r"{m}/{d}/(?<y>\d{4}|\d\d)", read_date_form),
        (r"{m}/{d}", read_date_form),
        (r"{d}[.\t-]{m}[.-](?<y>\d{4})", read_date_form),
        (r"{d}[.\t]{m}\.(?<y>\d\d)", read_date_form),
        (r"(?<y>\d{4})-{m}", read_date_form),
        (
            r"(?<y>\d{4})(?<m>0\d|1[0-2])(?<d>[0-2]\d|3[01])",
            read_date_form,
        ),
        (
            r"(?<y>\d{4})(?<m>0\d|1[0-2])(?<d>[0-2]\d|3[01])(?<h>[01]\d|2[0-3])(?<i>[0-5]\d)(?<s>[0-5]\d)",
            read_date_and_time,
        ),
        (
            r"{d}(?:st|nd|rd|th)?[ \t.-]*{month}(?:[ \t.-]*(?<y>\d{4}|\d\d))?",
            read_date_form,
        ),
        (r"{month}[ .\t-]*{d}(?:st|nd|rd|th)?\b", read_date_form),
        (
            r"{month}[ .\t-]*{d}(?:[,.\t ]|st|nd|rd|th)+(?<y>\d{4})",
            read_date_form,
        ),
        (r"{month}[ .\t-]*(?<y>\d{4})", read_date_form),
        (
            r"(?<y>\d{4})[ .\t-]*{month}(?:-(?<d>[0-2]\d|3[01]))?",
            read_date_form,
        ),
        (r"(?<y>\d{1,4})-{month}-(?<d>[0-2]\d|3[01])", read_date_form),
        (
            r"{month}-(?<d>[0-2]\d|3[01])-(?<y>\d{4}|\d\d)",
            read_date_form,
        ),
        (
            r"(?<y>\d{4}):(?<m>0\d|1[0-2]):(?<d>[0-2]\d|3[01]) {h}:{i}:{s}",
            read_date_and_time,
        ),
        (
            r"{d}/{month}/(?<y>\d{4}):{h}:{i}:{s}(?:\s*{zone})?",
            read_date_and_time,
        ),
        (
            r"(?<y>\d{4})-?w(?<w>[0-4]\d|5[0-3])(?:-?(?<wd>[0-7]))?",
            read_iso_date,
        ),
        (r"(?<y>\d{4})\b", read_year),
        (r"@(?<seconds>-?\d{1,15})", read_epoch),
        (r"(?:(?<noon>noon)|midnight)\b", read_noon),
        (
            r"(?<weekday>mon|tue|wed|thu|fri|sat|sun)(?:day|sday|s|nesday|nes|rsday|rs|r|urday|urs)?\b",
            read_weekday,
        ),
        (r"{zone}", read_zone_form),
    ];
    let compiled = forms.map(|(form, read)| Some((compile_form(form)?, read)));
    compiled.into_iter().flatten().collect()
});

static ZONE: LazyLock<Option<Regex>> = LazyLock::new(|| compile_form("{zone}"));

fn compile_form(form: &str) -> Option<Regex> {
    let form = form
        .replace("{h}", r"(?<h>2[0-3]|[01]?\d)")
        .replace("{i}", r"(?<i>[0-5]?\d)")
        .replace("{s}", r"(?<s>[0-5]?\d)")
        .replace("{m}", r"(?<m>1[0-2]|0?\d)")
        .replace("{d}", r"(?<d>3[01]|[0-2]?\d)")
        .replace(
            "{month}",
            r"(?<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)",
        )
        .replace(
            "{zone}",
            r"(?:(?:gmt)?(?<sign>[+-])(?:(?<zh>2[0-4]|[01]?\d):?(?<zm>[0-5]\d)|(?<hours>2[0-4]|[01]?\d))|\(?(?<abbreviation>[a-z]{1,5})\b\)?)",
        );
    Regex::new(&format!("^(?i-u:{form})")).ok()
}

fn captured_number(captures: &Captures<'_>, name: &str) -> Option<i64> {
    captures.name(name)?.as_str().parse().ok()
}

/// Reads a year. Two digits mean a year from 1970 to 2069.
fn captured_year(captures: &Captures<'_>) -> Option<i64> {
    let year = captured_number(captures, "y")?;
    Some(match captures.name("y")?.len() {
        4.. => year,
        _ if year < 70 => year + 2000,
        _ if year < 100 => year + 1900,
        _ => year,
    })
}

fn read_date_form(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    let month = match captures.name("month") {
        Some(name) => {
            let name = name.as_str().get(..3)?.to_ascii_lowercase();
            let index = MONTHS.iter().position(|month| *month == name)?;
            i64::try_from(index).ok()? + 1
        }
        None => captured_number(captures, "m")?,
    };
    parts.set_date(
        captured_year(captures),
        month,
        captured_number(captures, "d").unwrap_or(1),
    )
}

fn read_iso_date(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    let day = captured_number(captures, "wd").unwrap_or(1);
    let days = days_of_iso_week(
        captured_number(captures, "y")?,
        captured_number(captures, "w")?,
        day,
    );
    let is_first = parts.year.is_none() && parts.iso_days.replace(days).is_none();
    is_first.then_some(())
}

fn read_date_and_time(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    read_date_form(parts, captures)?;
    read_time(parts, captures)
}

/// Reads a year that follows the month, the day and the time, as in C's `ctime`.
fn read_year(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    let is_first = parts.year.is_none() && parts.iso_days.is_none();
    parts.year = captured_year(captures);
    is_first.then_some(())
}

fn read_epoch(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    let millis = captured_number(captures, "seconds")?.checked_mul(SECOND_MILLIS)?;
    parts.set_date(Some(1970), 1, 1)?;
    parts.set_time(millis)?;
    parts.set_offset(0)
}

fn read_time(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    parts.set_time(captured_time(captures, captured_number(captures, "h")?)?)?;
    if captures.name("sign").is_some() || captures.name("abbreviation").is_some() {
        parts.set_offset(captured_offset(captures)?)?;
    }
    Some(())
}

fn read_twelve_hours(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    let is_afternoon = captures.name("pm")?.as_str().eq_ignore_ascii_case("p");
    let hour = captured_number(captures, "h")? % 12 + if is_afternoon { 12 } else { 0 };
    parts.set_time(captured_time(captures, hour)?)
}

fn read_noon(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    parts.set_time(captures.name("noon").map_or(0, |_| 12 * HOUR_MILLIS))
}

fn captured_time(captures: &Captures<'_>, hour: i64) -> Option<i64> {
    let minute = captured_number(captures, "i").unwrap_or(0);
    let second = captured_number(captures, "s").unwrap_or(0);
    let fraction = captures.name("f").map_or("", |fraction| fraction.as_str());
    let digits = format!("{fraction:0<3}");
    let millisecond: i64 = digits.get(..3)?.parse().ok()?;
    (hour < 24).then_some(
        hour * HOUR_MILLIS + minute * MINUTE_MILLIS + second * SECOND_MILLIS + millisecond,
    )
}

fn read_zone_form(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    parts.set_offset(captured_offset(captures)?)
}

fn captured_offset(captures: &Captures<'_>) -> Option<i64> {
    if let Some(sign) = captures.name("sign") {
        let sign = if sign.as_str() == "-" { -1 } else { 1 };
        let hours = captured_number(captures, "zh").or(captured_number(captures, "hours"))?;
        let minutes = hours * 60 + captured_number(captures, "zm").unwrap_or(0);
        return Some(sign * minutes * MINUTE_MILLIS);
    }
    let name = captures.name("abbreviation")?.as_str().to_ascii_lowercase();
    if let &[letter] = name.as_bytes() {
        return military_offset(letter).map(|hours| hours * HOUR_MILLIS);
    }
    let (_, minutes) = ABBREVIATIONS
        .iter()
        .find(|(abbreviation, _)| *abbreviation == name)?;
    Some(minutes * MINUTE_MILLIS)
}

/// Returns the offset in hours of a military time zone letter. `j` is not used.
fn military_offset(letter: u8) -> Option<i64> {
    let hours = match letter {
        b'a'..=b'i' => letter - b'a' + 1,
        b'k'..=b'm' => letter - b'k' + 10,
        b'n'..=b'y' => return Some(-i64::from(letter - b'n' + 1)),
        b'z' => 0,
        _ => return None,
    };
    Some(hours.into())
}

fn read_weekday(parts: &mut DateParts, captures: &Captures<'_>) -> Option<()> {
    let name = captures.name("weekday")?.as_str().to_ascii_lowercase();
    let index = WEEKDAYS.iter().position(|day| *day == name)?;
    let day = i64::try_from(index).ok()? + 1;
    parts.weekday.replace(day).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::super::format::format_iso;
    use super::*;

    fn read(text: &str) -> Result<String> {
        format_iso(parse_date(text)?)
    }

    #[test]
    fn all_forms_are_patterns() {
        assert_eq!(DATE_ITEM_FORMS.len(), 30);
        assert!(leading_zone("+01:00").is_some());
    }

    #[test]
    fn the_usual_forms() {
        let cases = [
            ("2020-01-02 03:04", "2020-01-02T03:04:00.000Z"),
            ("2020-01-02T03:04:05.1234567Z", "2020-01-02T03:04:05.123Z"),
            ("2020-01-02T03:04:05+0100", "2020-01-02T02:04:05.000Z"),
            ("2020-01-02T03:04+200", "2020-01-02T01:04:00.000Z"),
            ("2020-01-02T03", "2020-01-02T03:00:00.000Z"),
            ("20200102T030405Z", "2020-01-02T03:04:05.000Z"),
            ("2020-1-2", "2020-01-02T00:00:00.000Z"),
            ("99-01-02", "1999-01-02T00:00:00.000Z"),
            ("2017-07", "2017-07-01T00:00:00.000Z"),
            ("2017-Jul-04", "2017-07-04T00:00:00.000Z"),
            ("04Jul2017", "2017-07-04T00:00:00.000Z"),
            ("1.2.2020", "2020-02-01T00:00:00.000Z"),
            ("7/4/17 1:2:3", "2017-07-04T01:02:03.000Z"),
            ("July 4th, 2017 12:39:30 BST", "2017-07-04T11:39:30.000Z"),
            ("JULY 4 2017 10:20:30 P.M.", "2017-07-04T22:20:30.000Z"),
            ("July 4th, 2017 11am", "2017-07-04T11:00:00.000Z"),
            ("08-06-30", "2008-06-30T00:00:00.000Z"),
            ("May-09-78", "1978-05-09T00:00:00.000Z"),
            ("10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36.000Z"),
            ("2017-Jul-04 noon", "2017-07-04T12:00:00.000Z"),
            ("July 2017", "2017-07-01T00:00:00.000Z"),
            (
                "Tue, 04 Jul 2017 11:56:02 +0000",
                "2017-07-04T11:56:02.000Z",
            ),
            ("Tue Jul  2 10:00:00 UTC 2024", "2024-07-02T10:00:00.000Z"),
            ("Monday 2017-07-04", "2017-07-10T00:00:00.000Z"),
            ("2017-W27-2", "2017-07-04T00:00:00.000Z"),
            ("20170704115901", "2017-07-04T11:59:01.000Z"),
            ("2017-07-04T11:56:02 GMT+2", "2017-07-04T09:56:02.000Z"),
            ("2017-07-04x", "2017-07-04T11:00:00.000Z"),
            ("@1499169362", "2017-07-04T11:56:02.000Z"),
        ];
        for (text, date) in cases {
            assert_eq!(read(text).unwrap(), date, "{text}");
        }
    }

    #[test]
    fn invalid_dates_are_errors() {
        let cases = [
            "",
            "2017",
            "11:56",
            "Monday",
            "7/4",
            "31/12/2017",
            "2017-02-30",
            "2017-13-01",
            "2017-07-04T24:00:00Z",
            "2017-07-04T11:59:61",
            "2017-07-04 2018-07-04",
            "not-a-date",
            "2017-07-04T11:56:02 Europe/London",
            "July 4 2017 at 10:00",
            "2017-07-04 10",
            "é",
        ];
        for text in cases {
            assert_eq!(read(text).unwrap_err().code(), Some(241), "{text}");
        }
    }
}
