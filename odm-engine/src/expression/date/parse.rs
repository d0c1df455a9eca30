//! Dates from text in the usual forms.
//!
//! A text is a sequence of items: a date, a time, a time zone, a day of the week. Of the forms that
//! fit at a place the longest is taken, of equally long ones the first. Forms that are relative to
//! the present, such as `tomorrow`, are not known.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::calendar::{DAY, HOUR, MINUTE, SECOND, days_in_month, days_of, days_of_iso};
use super::zone::Zone;
use crate::error::code;
use crate::{Error, Result};

/// What a text says about a date.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) year: Option<i64>,
    pub(super) month: Option<i64>,
    pub(super) day: Option<i64>,
    /// A date by ISO 8601's weeks, instead of the three before, as days since 1970.
    pub(super) iso_days: Option<i64>,
    /// Milliseconds since midnight.
    pub(super) time: Option<i64>,
    /// How far the named time zone is ahead of UTC, in milliseconds.
    pub(super) offset: Option<i64>,
    /// From 1 for Monday: the first such day from the date on.
    weekday: Option<i64>,
}

/// Reads a text.
///
/// # Errors
/// It is no date (code 241).
pub(super) fn parts(text: &str) -> Result<Parts> {
    if text.is_empty() {
        return Err(not_a_date("a date is not empty"));
    }
    let mut parts = Parts::default();
    let mut rest = text.trim_start_matches(SEPARATORS);
    while !rest.is_empty() {
        let matches = FORMS.iter().filter_map(|(pattern, read)| {
            let found = pattern.captures(rest)?;
            let length = found.get(0)?.len();
            Some((length, found, read))
        });
        // The last of equal ones is what a maximum gives, and the first is wanted.
        let longest = matches.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let Some((length, found, read)) = longest.filter(|(length, ..)| *length > 0) else {
            return Err(not_a_date(&format!("'{text}' is no date from '{rest}' on")));
        };
        if read(&mut parts, &found).is_none() {
            return Err(not_a_date(&format!(
                "'{text}' is no date because of '{rest}'"
            )));
        }
        rest = rest.get(length..).unwrap_or_default();
        rest = rest.trim_start_matches(SEPARATORS);
    }
    Ok(parts)
}

pub(super) fn not_a_date(message: &str) -> Error {
    Error::server(code::CONVERSION_FAILURE, message)
}

impl Parts {
    pub(super) fn has_zone(&self) -> bool {
        self.offset.is_some()
    }

    /// The instant that is meant, by the clocks of `zone` unless the text names another.
    ///
    /// # Errors
    /// The date is not complete or does not exist (code 241).
    pub(super) fn instant(&self, text: &str, zone: &Zone) -> Result<i64> {
        let days = match (self.iso_days, self.year, self.month, self.day) {
            (Some(days), ..) => days,
            (None, Some(year), Some(month), Some(day)) => {
                let exists =
                    (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
                if !exists {
                    return Err(not_a_date(&format!("there is no such date as '{text}'")));
                }
                days_of(year, month, day)
            }
            _ => return Err(not_a_date(&format!("'{text}' is not a complete date"))),
        };
        // 1970-01-01 was a Thursday.
        let weekday = (days + 3).rem_euclid(7) + 1;
        let ahead = self
            .weekday
            .map_or(0, |wanted| (wanted - weekday).rem_euclid(7));
        let local = (days + ahead) * DAY + self.time.unwrap_or(0);
        Ok(match self.offset {
            Some(offset) => local - offset,
            None => zone.instant(local, None),
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

/// The time zone that a text begins with, and what follows it: an offset, or an abbreviation.
pub(super) fn leading_zone(text: &str) -> Option<(i64, &str)> {
    let found = ZONE.as_ref()?.captures(text)?;
    let rest = text.get(found.get(0)?.len()..)?;
    Some((zone_offset(&found)?, rest))
}

/// What may stand between items.
const SEPARATORS: [char; 5] = [' ', '\t', '\n', ',', '.'];

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Abbreviations of time zones and how many minutes they are ahead of UTC. They are few, as most are
/// ambiguous.
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

type Read = fn(&mut Parts, &Captures<'_>) -> Option<()>;

/// The forms of items. `{y}`, `{m}` and so on stand for the patterns of [`pattern`].
static FORMS: LazyLock<Vec<(Regex, Read)>> = LazyLock::new(|| {
    let forms: [(&str, Read); 29] = [
        // Times come first: of equally long forms they are the ones that are meant.
        (
            r"(?<h>1[0-2]|0?[1-9])(?:[:.]{i}(?:[:.]{s})?)?\s*(?<pm>[ap])\.?m\b\.?",
            twelve_hours,
        ),
        (
            r"t?{h}[:.]{i}(?:[:.]{s}(?:\.(?<f>\d+))?)?(?:\s*{zone})?",
            time,
        ),
        (r"t{h}(?:\s*{zone})?", time),
        (
            r"t(?<h>\d\d)(?<i>[0-5]\d)(?<s>[0-5]\d)?(?:\.(?<f>\d+))?(?:\s*{zone})?",
            time,
        ),
        (r"(?<h>\d\d)(?<i>[0-5]\d)(?<s>[0-5]\d)(?:\s*{zone})?", time),
        (
            r"(?<y>[+-]?\d{4})-(?<m>0\d|1[0-2])-(?<d>[0-2]\d|3[01])",
            date,
        ),
        (r"(?<y>\d{1,4})-{m}-{d}", date),
        (r"(?<y>\d{4})/{m}/{d}/?", date),
        (r"{m}/{d}/(?<y>\d{4}|\d\d)", date),
        (r"{m}/{d}", date),
        (r"{d}[.\t-]{m}[.-](?<y>\d{4})", date),
        (r"{d}[.\t]{m}\.(?<y>\d\d)", date),
        (r"(?<y>\d{4})-{m}", date),
        (r"(?<y>\d{4})(?<m>0\d|1[0-2])(?<d>[0-2]\d|3[01])", date),
        (
            r"(?<y>\d{4})(?<m>0\d|1[0-2])(?<d>[0-2]\d|3[01])(?<h>[01]\d|2[0-3])(?<i>[0-5]\d)(?<s>[0-5]\d)",
            date_and_time,
        ),
        (
            r"{d}(?:st|nd|rd|th)?[ \t.-]*{month}(?:[ \t.-]*(?<y>\d{4}|\d\d))?",
            date,
        ),
        (r"{month}[ .\t-]*{d}(?:st|nd|rd|th)?\b", date),
        (
            r"{month}[ .\t-]*{d}(?:[,.\t ]|st|nd|rd|th)+(?<y>\d{4})",
            date,
        ),
        (r"{month}[ .\t-]*(?<y>\d{4})", date),
        (r"(?<y>\d{4})[ .\t-]*{month}(?:-(?<d>[0-2]\d|3[01]))?", date),
        (r"(?<y>\d{1,4})-{month}-(?<d>[0-2]\d|3[01])", date),
        (r"{month}-(?<d>[0-2]\d|3[01])-(?<y>\d{4}|\d\d)", date),
        (
            r"(?<y>\d{4}):(?<m>0\d|1[0-2]):(?<d>[0-2]\d|3[01]) {h}:{i}:{s}",
            date_and_time,
        ),
        (
            r"{d}/{month}/(?<y>\d{4}):{h}:{i}:{s}(?:\s*{zone})?",
            date_and_time,
        ),
        (
            r"(?<y>\d{4})-?w(?<w>[0-4]\d|5[0-3])(?:-?(?<wd>[0-7]))?",
            iso_date,
        ),
        (r"(?<y>\d{4})\b", year),
        (r"@(?<seconds>-?\d{1,15})", epoch),
        (
            r"(?<weekday>mon|tue|wed|thu|fri|sat|sun)(?:day|sday|s|nesday|nes|rsday|rs|r|urday|urs)?\b",
            weekday,
        ),
        (r"{zone}", zone),
    ];
    let compiled = forms.map(|(form, read)| Some((pattern(form)?, read)));
    compiled.into_iter().flatten().collect()
});

static ZONE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern("{zone}"));

fn pattern(form: &str) -> Option<Regex> {
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

fn number(found: &Captures<'_>, name: &str) -> Option<i64> {
    found.name(name)?.as_str().parse().ok()
}

/// A year of two digits is one of the 70 before or the 30 after 2000.
fn year_of(found: &Captures<'_>) -> Option<i64> {
    let year = number(found, "y")?;
    Some(match found.name("y")?.len() {
        4.. => year,
        _ if year < 70 => year + 2000,
        _ if year < 100 => year + 1900,
        _ => year,
    })
}

fn date(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    let month = match found.name("month") {
        Some(name) => {
            let name = name.as_str().get(..3)?.to_ascii_lowercase();
            let index = MONTHS.iter().position(|month| *month == name)?;
            i64::try_from(index).ok()? + 1
        }
        None => number(found, "m")?,
    };
    parts.set_date(year_of(found), month, number(found, "d").unwrap_or(1))
}

fn iso_date(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    let day = number(found, "wd").unwrap_or(1);
    let days = days_of_iso(number(found, "y")?, number(found, "w")?, day);
    let is_first = parts.year.is_none() && parts.iso_days.replace(days).is_none();
    is_first.then_some(())
}

fn date_and_time(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    date(parts, found)?;
    time(parts, found)
}

/// A year behind the month, the day and the time, as C's `ctime` has it.
fn year(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    let fits = parts.year.is_none() && parts.iso_days.is_none();
    parts.year = year_of(found);
    fits.then_some(())
}

fn epoch(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    let millis = number(found, "seconds")?.checked_mul(SECOND)?;
    parts.set_date(Some(1970), 1, 1)?;
    parts.set_time(millis)?;
    parts.set_offset(0)
}

fn time(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    parts.set_time(time_of(found, number(found, "h")?)?)?;
    if found.name("sign").is_some() || found.name("abbreviation").is_some() {
        parts.set_offset(zone_offset(found)?)?;
    }
    Some(())
}

fn twelve_hours(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    let is_afternoon = found.name("pm")?.as_str().eq_ignore_ascii_case("p");
    let hour = number(found, "h")? % 12 + if is_afternoon { 12 } else { 0 };
    parts.set_time(time_of(found, hour)?)
}

fn time_of(found: &Captures<'_>, hour: i64) -> Option<i64> {
    let minute = number(found, "i").unwrap_or(0);
    let second = number(found, "s").unwrap_or(0);
    let fraction = found.name("f").map_or("", |fraction| fraction.as_str());
    let digits = format!("{fraction:0<3}");
    let millisecond: i64 = digits.get(..3)?.parse().ok()?;
    (hour < 24).then_some(hour * HOUR + minute * MINUTE + second * SECOND + millisecond)
}

fn zone(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    parts.set_offset(zone_offset(found)?)
}

fn zone_offset(found: &Captures<'_>) -> Option<i64> {
    if let Some(sign) = found.name("sign") {
        let sign = if sign.as_str() == "-" { -1 } else { 1 };
        let hours = number(found, "zh").or(number(found, "hours"))?;
        let minutes = hours * 60 + number(found, "zm").unwrap_or(0);
        return Some(sign * minutes * MINUTE);
    }
    let name = found.name("abbreviation")?.as_str().to_ascii_lowercase();
    if let &[letter] = name.as_bytes() {
        return military(letter).map(|hours| hours * HOUR);
    }
    let (_, minutes) = ABBREVIATIONS.iter().find(|(own, _)| *own == name)?;
    Some(minutes * MINUTE)
}

/// The hours of a time zone that is a letter, without `j`.
fn military(letter: u8) -> Option<i64> {
    let hours = match letter {
        b'a'..=b'i' => letter - b'a' + 1,
        b'k'..=b'm' => letter - b'k' + 10,
        b'n'..=b'y' => return Some(-i64::from(letter - b'n' + 1)),
        b'z' => 0,
        _ => return None,
    };
    Some(hours.into())
}

fn weekday(parts: &mut Parts, found: &Captures<'_>) -> Option<()> {
    let name = found.name("weekday")?.as_str().to_ascii_lowercase();
    let index = WEEKDAYS.iter().position(|day| *day == name)?;
    let day = i64::try_from(index).ok()? + 1;
    parts.weekday.replace(day).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::super::date_from_string;
    use super::super::format::format_iso;
    use super::*;

    fn read(text: &str) -> Result<String> {
        format_iso(date_from_string::read(text)?)
    }

    #[test]
    fn all_forms_are_patterns() {
        assert_eq!(FORMS.len(), 29);
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
    fn what_is_no_date_says_so() {
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
