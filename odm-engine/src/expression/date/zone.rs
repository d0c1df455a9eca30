//! Time zones: a name of the IANA database, or an offset such as `+05:30`, `-0800` or `+03`.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::calendar::{CYCLE_DAYS, DAY_MILLIS};
use crate::{Error, Result};

/// The bundled time zone database, so that results do not depend on the machine.
static ZONE_DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The period of the calendar in milliseconds.
const CYCLE_MILLIS: i64 = CYCLE_DAYS * DAY_MILLIS;

/// A time zone of a date operator.
#[derive(Debug, Clone)]
pub(super) enum DateZone {
    /// A constant offset from UTC in milliseconds.
    Fixed(i64),
    Named(TimeZone),
}

impl DateZone {
    pub(super) const UTC: DateZone = DateZone::Fixed(0);

    /// Returns the time zone with a name or an offset.
    ///
    /// # Errors
    /// No such time zone exists (code 40485).
    pub(super) fn from_name(name: &str) -> Result<DateZone> {
        if name == "UTC" || name == "GMT" {
            return Ok(DateZone::UTC);
        }
        if let Some(offset) = parse_offset(name) {
            return Ok(DateZone::Fixed(offset));
        }
        ZONE_DATABASE
            .get(name)
            .ok()
            // MongoDB's names are case-sensitive.
            .filter(|zone| zone.iana_name() == Some(name))
            .map(DateZone::Named)
            .ok_or_else(|| {
                Error::with_server_code(40485, format!("unrecognized time zone: '{name}'"))
            })
    }

    /// Returns the offset of the zone from UTC at an instant, in milliseconds.
    pub(super) fn offset_at(&self, instant: i64) -> i64 {
        let zone = match self {
            DateZone::Fixed(offset) => return *offset,
            DateZone::Named(zone) => zone,
        };
        // Outside the library's range, use a year within range that has the same calendar.
        let limits = Timestamp::MIN.as_millisecond()..=Timestamp::MAX.as_millisecond();
        let instant = if limits.contains(&instant) {
            instant
        } else {
            instant.rem_euclid(CYCLE_MILLIS)
                + if instant > 0 {
                    CYCLE_MILLIS
                } else {
                    -10 * CYCLE_MILLIS
                }
        };
        Timestamp::from_millisecond(instant).map_or(0, |instant| {
            i64::from(zone.to_offset(instant).seconds()) * 1000
        })
    }

    /// Returns the local time at an instant, as if in UTC.
    pub(super) fn to_local(&self, instant: i64) -> i64 {
        instant.saturating_add(self.offset_at(instant))
    }

    /// Returns the instant at which the zone shows a local time.
    ///
    /// If the time occurs twice, the offset `preferred` decides, else the later instant wins. A
    /// skipped time uses the offset before the gap.
    pub(super) fn to_instant(&self, local: i64, preferred: Option<i64>) -> i64 {
        let before = self.offset_at(local.saturating_sub(DAY_MILLIS));
        let after = self.offset_at(local.saturating_add(DAY_MILLIS));
        let at = |offset| local.saturating_sub(offset);
        let is_valid = |offset| self.offset_at(at(offset)) == offset;
        match (is_valid(before), is_valid(after)) {
            (true, true) if preferred == Some(before) => at(before),
            (_, true) => at(after),
            _ => at(before),
        }
    }
}

/// Parses `±hh`, `±hhmm` or `±hh:mm` into milliseconds.
fn parse_offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes() {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let two_digits = |a: u8, b: u8| {
        let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
        Some(digit(a)? * 10 + digit(b)?)
    };
    let minutes = match *digits {
        [a, b] => two_digits(a, b)? * 60,
        [a, b, c, d] | [a, b, b':', c, d] => two_digits(a, b)? * 60 + two_digits(c, d)?,
        _ => return None,
    };
    Some(sign * minutes * super::calendar::MINUTE_MILLIS)
}

#[cfg(test)]
mod tests {
    use super::super::calendar::{HOUR_MILLIS, MINUTE_MILLIS, days_of_date};
    use super::*;

    #[test]
    fn zones_have_names_and_offsets() {
        let hours =
            |name| DateZone::from_name(name).unwrap().offset_at(0) as f64 / HOUR_MILLIS as f64;
        assert_eq!(hours("+05:30"), 5.5);
        assert_eq!(hours("-0800"), -8.0);
        assert_eq!(hours("+03"), 3.0);
        assert_eq!(hours("America/New_York"), -5.0);
        for name in [
            "",
            "+",
            "+3",
            "+03:5",
            "03:00",
            "america/new_york",
            "utc",
            "Mars/Here",
        ] {
            assert_eq!(
                DateZone::from_name(name).unwrap_err().code(),
                Some(40485),
                "{name}"
            );
        }
    }

    #[test]
    fn clocks_that_change() {
        let zone = DateZone::from_name("America/New_York").unwrap();
        let local = |month, day, hour| {
            days_of_date(2024, month, day) * DAY_MILLIS + hour * HOUR_MILLIS + 30 * MINUTE_MILLIS
        };
        let hour_of = |instant: i64| instant.rem_euclid(DAY_MILLIS) / HOUR_MILLIS;
        // 02:30 does not exist, and 01:30 exists twice.
        assert_eq!(hour_of(zone.to_instant(local(3, 10, 2), None)), 7);
        assert_eq!(hour_of(zone.to_instant(local(11, 3, 1), None)), 6);
        assert_eq!(
            hour_of(zone.to_instant(local(11, 3, 1), Some(-4 * HOUR_MILLIS))),
            5
        );
    }

    #[test]
    fn far_dates_have_zones_too() {
        let zone = DateZone::from_name("America/New_York").unwrap();
        let july = |year| days_of_date(year, 7, 1) * DAY_MILLIS;
        assert_eq!(zone.offset_at(july(2400)), zone.offset_at(july(282_000)));
        zone.to_instant(i64::MAX, None);
        zone.to_instant(i64::MIN, None);
    }
}
