//! Units of time.

use super::calendar::{Calendar, DAY, HOUR, MINUTE, SECOND, days_in_month, days_of};
use super::zone::Zone;
use crate::expression::Value;
use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    pub(super) fn find(name: &str) -> Option<Unit> {
        Some(match name {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Hour,
            "minute" => Unit::Minute,
            "second" => Unit::Second,
            "millisecond" => Unit::Millisecond,
            _ => return None,
        })
    }

    /// The unit that an argument names.
    ///
    /// # Errors
    /// It is no string (code 5439013), or names none (code 5439014).
    pub(super) fn of(value: &Value<'_>) -> Result<Unit> {
        let name = value.text().ok_or_else(|| {
            let message = format!("'unit' is a string, not {}", value.type_name());
            Error::server(5439013, message)
        })?;
        Unit::find(name)
            .ok_or_else(|| Error::server(5439014, format!("'{name}' is no unit of time")))
    }

    /// How many months it has, if it is a multiple of them.
    pub(super) fn months(self) -> Option<i64> {
        match self {
            Unit::Year => Some(12),
            Unit::Quarter => Some(3),
            Unit::Month => Some(1),
            _ => None,
        }
    }

    /// How many days it has, if it is a multiple of them.
    pub(super) fn days(self) -> Option<i64> {
        match self {
            Unit::Week => Some(7),
            Unit::Day => Some(1),
            _ => None,
        }
    }

    /// How many milliseconds it has, if it always has as many.
    pub(super) fn millis(self) -> Option<i64> {
        match self {
            Unit::Hour => Some(HOUR),
            Unit::Minute => Some(MINUTE),
            Unit::Second => Some(SECOND),
            Unit::Millisecond => Some(1),
            _ => None,
        }
    }

    /// The instant so many units later, by the clocks of a zone where the unit is a day or longer.
    /// A day that a month has not becomes its last one. `None` if it is out of range.
    pub(super) fn add(self, instant: i64, amount: i64, zone: &Zone) -> Option<i64> {
        if amount == 0 {
            return Some(instant);
        }
        if let Some(millis) = self.millis() {
            return instant.checked_add(amount.checked_mul(millis)?);
        }
        let local = Calendar::from_millis(zone.local(instant));
        let days = if let Some(months) = self.months() {
            let months = amount.checked_mul(months)?;
            let months = months.checked_add(i64::from(local.month) - 1)?;
            // More years than a date can have would be too much for the calendar.
            let year = local.year.checked_add(months.div_euclid(12))?;
            if year.unsigned_abs() > 400_000_000 {
                return None;
            }
            let month = months.rem_euclid(12) + 1;
            let day = i64::from(local.day).min(days_in_month(year, month));
            days_of(year, month, day)
        } else {
            let days = amount.checked_mul(self.days()?)?;
            local.days().checked_add(days)?
        };
        let moved = days.checked_mul(DAY)?.checked_add(local.time())?;
        Some(zone.instant(moved, Some(zone.offset_at(instant))))
    }
}

/// The day that weeks begin with: 1 for Monday to 7 for Sunday, which is the default.
///
/// # Errors
/// It is no string (code 5439015), or names no day (code 5439016).
pub(super) fn start_of_week(value: &Value<'_>) -> Result<i64> {
    let name = value.text().ok_or_else(|| {
        let message = format!("'startOfWeek' is a string, not {}", value.type_name());
        Error::server(5439015, message)
    })?;
    let lower = name.to_ascii_lowercase();
    let day = match lower.as_str() {
        "monday" | "mon" => 1,
        "tuesday" | "tue" => 2,
        "wednesday" | "wed" => 3,
        "thursday" | "thu" => 4,
        "friday" | "fri" => 5,
        "saturday" | "sat" => 6,
        "sunday" | "sun" => 7,
        _ => {
            let message = format!("'{name}' is no day of the week");
            return Err(Error::server(5439016, message));
        }
    };
    Ok(day)
}
