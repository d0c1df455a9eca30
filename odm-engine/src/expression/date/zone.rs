//! Time zones: a name of the IANA database, or an offset such as `+05:30`, `-0800` or `+03`.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::calendar::{CYCLE_DAYS, DAY};
use crate::{Error, Result};

/// The database that comes with the program, so that answers do not depend on the machine.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// How long the calendar takes to repeat itself, in milliseconds.
const CYCLE: i64 = CYCLE_DAYS * DAY;

/// A time zone.
#[derive(Debug, Clone)]
pub(super) enum Zone {
    /// So many milliseconds ahead of UTC.
    Fixed(i64),
    Named(TimeZone),
}

impl Zone {
    pub(super) const UTC: Zone = Zone::Fixed(0);

    /// The time zone of a name or an offset.
    ///
    /// # Errors
    /// There is none (code 40485).
    pub(super) fn find(name: &str) -> Result<Zone> {
        if name == "UTC" || name == "GMT" {
            return Ok(Zone::UTC);
        }
        if let Some(offset) = offset(name) {
            return Ok(Zone::Fixed(offset));
        }
        DATABASE
            .get(name)
            .ok()
            // MongoDB tells upper from lower case.
            .filter(|zone| zone.iana_name() == Some(name))
            .map(Zone::Named)
            .ok_or_else(|| Error::server(40485, format!("unrecognized time zone: '{name}'")))
    }

    /// How far the zone is ahead of UTC at an instant, in milliseconds.
    pub(super) fn offset_at(&self, instant: i64) -> i64 {
        let zone = match self {
            Zone::Fixed(offset) => return *offset,
            Zone::Named(zone) => zone,
        };
        // Beyond the library's years the rules are those of a year that has the same days.
        let limits = Timestamp::MIN.as_millisecond()..=Timestamp::MAX.as_millisecond();
        let instant = if limits.contains(&instant) {
            instant
        } else {
            instant.rem_euclid(CYCLE) + if instant > 0 { CYCLE } else { -10 * CYCLE }
        };
        Timestamp::from_millisecond(instant).map_or(0, |instant| {
            i64::from(zone.to_offset(instant).seconds()) * 1000
        })
    }

    /// What the clocks of the zone show at an instant, as if they were in UTC.
    pub(super) fn local(&self, instant: i64) -> i64 {
        instant.saturating_add(self.offset_at(instant))
    }

    /// When the clocks of the zone show a time. Of two such instants it is the one with the offset
    /// `preferred`, else the later one; a time that is left out counts on from before the gap.
    pub(super) fn instant(&self, local: i64, preferred: Option<i64>) -> i64 {
        let before = self.offset_at(local.saturating_sub(DAY));
        let after = self.offset_at(local.saturating_add(DAY));
        let at = |offset| local.saturating_sub(offset);
        let holds = |offset| self.offset_at(at(offset)) == offset;
        match (holds(before), holds(after)) {
            (true, true) if preferred == Some(before) => at(before),
            (_, true) => at(after),
            _ => at(before),
        }
    }
}

/// `±hh`, `±hhmm` or `±hh:mm` in milliseconds.
fn offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes() {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let two = |a: u8, b: u8| {
        let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
        Some(digit(a)? * 10 + digit(b)?)
    };
    let minutes = match *digits {
        [a, b] => two(a, b)? * 60,
        [a, b, c, d] | [a, b, b':', c, d] => two(a, b)? * 60 + two(c, d)?,
        _ => return None,
    };
    Some(sign * minutes * super::calendar::MINUTE)
}

#[cfg(test)]
mod tests {
    use super::super::calendar::{HOUR, MINUTE, days_of};
    use super::*;

    #[test]
    fn zones_have_names_and_offsets() {
        let hours = |name| Zone::find(name).unwrap().offset_at(0) as f64 / HOUR as f64;
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
            assert_eq!(Zone::find(name).unwrap_err().code(), Some(40485), "{name}");
        }
    }

    #[test]
    fn clocks_that_change() {
        let zone = Zone::find("America/New_York").unwrap();
        let local = |month, day, hour| days_of(2024, month, day) * DAY + hour * HOUR + 30 * MINUTE;
        let hour_of = |instant: i64| instant.rem_euclid(DAY) / HOUR;
        // 02:30 does not exist, 01:30 exists twice.
        assert_eq!(hour_of(zone.instant(local(3, 10, 2), None)), 7);
        assert_eq!(hour_of(zone.instant(local(11, 3, 1), None)), 6);
        assert_eq!(hour_of(zone.instant(local(11, 3, 1), Some(-4 * HOUR))), 5);
    }

    #[test]
    fn far_dates_have_zones_too() {
        let zone = Zone::find("America/New_York").unwrap();
        let july = |year| days_of(year, 7, 1) * DAY;
        assert_eq!(zone.offset_at(july(2400)), zone.offset_at(july(282_000)));
        zone.instant(i64::MAX, None);
        zone.instant(i64::MIN, None);
    }
}
