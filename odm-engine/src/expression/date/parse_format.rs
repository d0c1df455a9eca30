//! Parsing of dates in a given format.

use super::calendar::{HOUR_MILLIS, MINUTE_MILLIS, SECOND_MILLIS, days_of_iso_week};
use super::parse::{DateParts, leading_zone, not_a_date};
use crate::Result;

/// Parses a text in a format into date parts.
///
/// # Errors
/// The text does not match the format, or is not a date (code 241).
pub(super) fn parse_parts(text: &str, format: &str) -> Result<DateParts> {
    try_parse_parts(text, format).ok_or_else(|| {
        let message = format!("cannot parse '{text}' as a date in the format '{format}'");
        not_a_date(&message)
    })
}

fn try_parse_parts(text: &str, format: &str) -> Option<DateParts> {
    let (mut parts, mut rest) = (DateParts::default(), text);
    let (mut iso_year, mut iso_week, mut iso_day) = (None, None, None);
    let (mut hour, mut minute, mut second, mut millisecond) = (None, None, None, None);
    let mut specifiers = format.chars();
    while let Some(c) = specifiers.next() {
        if c != '%' {
            rest = rest.strip_prefix(c)?;
            continue;
        }
        match specifiers.next()? {
            'd' => parts.day = Some(take_number(&mut rest, 2, 0..=31)?),
            'm' => parts.month = Some(take_number(&mut rest, 2, 0..=99)?),
            'Y' => parts.year = Some(take_number(&mut rest, 4, 0..=9999)?),
            'G' => iso_year = Some(take_number(&mut rest, 4, 0..=9999)?),
            'V' => iso_week = Some(take_number(&mut rest, 2, 1..=53)?),
            'u' => iso_day = Some(take_number(&mut rest, 1, 1..=7)?),
            'H' => hour = Some(take_number(&mut rest, 2, 0..=23)?),
            'M' => minute = Some(take_number(&mut rest, 2, 0..=59)?),
            'S' => second = Some(take_number(&mut rest, 2, 0..=59)?),
            'L' => {
                let before = rest.len();
                let digits = take_number(&mut rest, 3, 0..=999)?;
                // Milliseconds are a decimal fraction: fewer than three digits are scaled.
                millisecond = Some(match before - rest.len() {
                    1 => digits * 100,
                    2 => digits * 10,
                    _ => digits,
                });
            }
            'z' => {
                let (offset, after) = leading_zone(rest)?;
                parts.set_offset(offset)?;
                rest = after;
            }
            'Z' => {
                let sign = if rest.starts_with('-') { -1 } else { 1 };
                rest = rest.strip_prefix(['+', '-'])?;
                let minutes = take_number(&mut rest, 4, 0..=9999)?;
                parts.set_offset(sign * minutes * MINUTE_MILLIS)?;
            }
            other => rest = rest.strip_prefix(other)?,
        }
    }
    if let Some(year) = iso_year {
        let is_mixed = parts.year.is_some() || parts.month.is_some() || parts.day.is_some();
        if is_mixed {
            return None;
        }
        let (week, day) = (iso_week.unwrap_or(1), iso_day.unwrap_or(1));
        parts.iso_days = Some(days_of_iso_week(year, week, day));
    } else if iso_week.is_some() || iso_day.is_some() {
        return None;
    }
    let time = |part: Option<i64>, unit| part.unwrap_or(0) * unit;
    parts.time = Some(
        time(hour, HOUR_MILLIS)
            + time(minute, MINUTE_MILLIS)
            + time(second, SECOND_MILLIS)
            + time(millisecond, 1),
    );
    rest.is_empty().then_some(parts)
}

/// Reads a number of up to `digits` digits.
fn take_number(
    rest: &mut &str,
    digits: usize,
    range: std::ops::RangeInclusive<i64>,
) -> Option<i64> {
    let count = rest
        .bytes()
        .take(digits)
        .take_while(u8::is_ascii_digit)
        .count();
    let (number, after) = rest.split_at_checked(count)?;
    *rest = after;
    number.parse().ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::super::format::format_iso;
    use super::super::zone::DateZone;
    use super::*;

    fn read(text: &str, format: &str) -> Result<String> {
        let instant = parse_parts(text, format)?.to_instant(text, &DateZone::UTC)?;
        format_iso(bson::DateTime::from_millis(instant))
    }

    #[test]
    fn formats_are_followed() {
        let cases = [
            ("2024-1-2", "%Y-%m-%d", "2024-01-02T00:00:00.000Z"),
            ("20240102", "%Y%m%d", "2024-01-02T00:00:00.000Z"),
            ("24-01-02", "%Y-%m-%d", "0024-01-02T00:00:00.000Z"),
            ("2024 24 6 10", "%G %V %u %H", "2024-06-15T10:00:00.000Z"),
            ("2017", "%G", "2017-01-02T00:00:00.000Z"),
            (
                "2024-01-02 1:2:3.5",
                "%Y-%m-%d %H:%M:%S.%L",
                "2024-01-02T01:02:03.500Z",
            ),
            (
                "2024-01-02 +01:30",
                "%Y-%m-%d %z",
                "2024-01-01T22:30:00.000Z",
            ),
            ("2024-01-02 EST", "%Y-%m-%d %z", "2024-01-02T05:00:00.000Z"),
            (
                "2024-01-02 -120 %",
                "%Y-%m-%d %Z %%",
                "2024-01-02T02:00:00.000Z",
            ),
        ];
        for (text, format, date) in cases {
            assert_eq!(read(text, format).unwrap(), date, "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        let cases = [
            ("2024-01-02x", "%Y-%m-%d"),
            ("2024-01-02", "%Y-%m-%d %H"),
            ("2024-02-30", "%Y-%m-%d"),
            ("2024-01-02 24", "%Y-%m-%d %H"),
            ("2024  01-02", "%Y %m-%d"),
            ("2024 54", "%G %V"),
            ("2024 06 24", "%Y %m %V"),
            ("2024-01", "%Y-%m"),
            ("10:20", "%H:%M"),
            ("2024-01-02 120", "%Y-%m-%d %Z"),
        ];
        for (text, format) in cases {
            assert_eq!(read(text, format).unwrap_err().code(), Some(241), "{text}");
        }
    }
}
