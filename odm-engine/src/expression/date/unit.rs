//! Time units of date operators.

use super::calendar::{
    CalendarDate, DAY_MILLIS, HOUR_MILLIS, MINUTE_MILLIS, SECOND_MILLIS, days_in_month,
    days_of_date,
};
use super::zone::DateZone;
use crate::expression::Value;
use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
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

impl TimeUnit {
    pub(super) fn from_name(name: &str) -> Option<TimeUnit> {
        Some(match name {
            "year" => TimeUnit::Year,
            "quarter" => TimeUnit::Quarter,
            "month" => TimeUnit::Month,
            "week" => TimeUnit::Week,
            "day" => TimeUnit::Day,
            "hour" => TimeUnit::Hour,
            "minute" => TimeUnit::Minute,
            "second" => TimeUnit::Second,
            "millisecond" => TimeUnit::Millisecond,
            _ => return None,
        })
    }

    /// Reads the time unit that an argument names.
    ///
    /// # Errors
    /// The value is not a string (code 5439013), or names no unit (code 5439014).
    pub(super) fn from_value(value: &Value<'_>) -> Result<TimeUnit> {
        let name = value.as_text().ok_or_else(|| {
            let message = format!("'unit' must be a string, not {}", value.type_name());
            Error::with_server_code(5439013, message)
        })?;
        TimeUnit::from_name(name)
            .ok_or_else(|| Error::with_server_code(5439014, format!("unknown time unit '{name}'")))
    }

    /// Returns the length in months, for units that are whole months.
    pub(super) fn month_count(self) -> Option<i64> {
        match self {
            TimeUnit::Year => Some(12),
            TimeUnit::Quarter => Some(3),
            TimeUnit::Month => Some(1),
            _ => None,
        }
    }

    /// Returns the length in days, for units that are whole days.
    pub(super) fn day_count(self) -> Option<i64> {
        match self {
            TimeUnit::Week => Some(7),
            TimeUnit::Day => Some(1),
            _ => None,
        }
    }

    /// Returns the length in milliseconds, for units of constant length.
    pub(super) fn fixed_millis(self) -> Option<i64> {
        match self {
            TimeUnit::Hour => Some(HOUR_MILLIS),
            TimeUnit::Minute => Some(MINUTE_MILLIS),
            TimeUnit::Second => Some(SECOND_MILLIS),
            TimeUnit::Millisecond => Some(1),
            _ => None,
        }
    }

    /// Moves an instant by a number of units. Days and longer units follow the local time of the
    /// zone.
    ///
    /// A day that does not exist in the target month becomes the last day of that month. `None` if
    /// the result is out of range.
    pub(super) fn add_to_instant(self, instant: i64, amount: i64, zone: &DateZone) -> Option<i64> {
        if amount == 0 {
            return Some(instant);
        }
        if let Some(millis) = self.fixed_millis() {
            return instant.checked_add(amount.checked_mul(millis)?);
        }
        let local = CalendarDate::from_millis(zone.to_local(instant));
        let days = if let Some(months) = self.month_count() {
            let months = amount.checked_mul(months)?;
            let months = months.checked_add(i64::from(local.month) - 1)?;
            // The calendar arithmetic would overflow with years beyond the range of dates.
            let year = local.year.checked_add(months.div_euclid(12))?;
            if year.unsigned_abs() > 400_000_000 {
                return None;
            }
            let month = months.rem_euclid(12) + 1;
            let day = i64::from(local.day).min(days_in_month(year, month));
            days_of_date(year, month, day)
        } else {
            let days = amount.checked_mul(self.day_count()?)?;
            local.days_since_epoch().checked_add(days)?
        };
        let result = days
            .checked_mul(DAY_MILLIS)?
            .checked_add(local.time_of_day())?;
        Some(zone.to_instant(result, Some(zone.offset_at(instant))))
    }
}

/// Reads the first day of the week: 1 for Monday to 7 for Sunday.
///
/// # Errors
/// The value is not a string (code 5439015), or names no day (code 5439016).
pub(super) fn start_of_week(value: &Value<'_>) -> Result<i64> {
    let name = value.as_text().ok_or_else(|| {
        let message = format!("'startOfWeek' must be a string, not {}", value.type_name());
        Error::with_server_code(5439015, message)
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
            let message = format!("unknown day of the week '{name}'");
            return Err(Error::with_server_code(5439016, message));
        }
    };
    Ok(day)
}
