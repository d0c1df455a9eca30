//! The proleptic Gregorian calendar.

pub(super) const SECOND_MILLIS: i64 = 1000;
pub(super) const MINUTE_MILLIS: i64 = 60 * SECOND_MILLIS;
pub(super) const HOUR_MILLIS: i64 = 60 * MINUTE_MILLIS;
pub(super) const DAY_MILLIS: i64 = 24 * HOUR_MILLIS;

/// The number of days in 400 years, after which the calendar repeats.
pub(super) const CYCLE_DAYS: i64 = 146_097;

/// A calendar date and time of day without a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::expression) struct CalendarDate {
    pub(in crate::expression) year: i64,
    /// 1 to 12.
    pub(in crate::expression) month: u8,
    /// Day of the month, from 1.
    pub(in crate::expression) day: u8,
    pub(in crate::expression) hour: u8,
    pub(in crate::expression) minute: u8,
    pub(in crate::expression) second: u8,
    pub(in crate::expression) millisecond: u16,
    /// Days since 1970-01-01.
    days: i64,
}

impl CalendarDate {
    /// Converts milliseconds since 1970.
    pub(in crate::expression) fn from_millis(millis: i64) -> CalendarDate {
        let days = millis.div_euclid(DAY_MILLIS);
        let time = millis.rem_euclid(DAY_MILLIS);
        let (year, month, day) = date_of(days);
        CalendarDate {
            year,
            month,
            day,
            hour: (time / HOUR_MILLIS) as u8,
            minute: (time % HOUR_MILLIS / MINUTE_MILLIS) as u8,
            second: (time % MINUTE_MILLIS / SECOND_MILLIS) as u8,
            millisecond: (time % SECOND_MILLIS) as u16,
            days,
        }
    }

    /// Returns the day of the week from 1 (Sunday) to 7 (Saturday).
    pub(super) fn day_of_week(&self) -> i64 {
        (self.days + 4).rem_euclid(7) + 1
    }

    /// Returns the day of the week from 1 (Monday) to 7 (Sunday).
    pub(super) fn iso_day_of_week(&self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }

    /// Returns the day of the year, from 1.
    pub(super) fn day_of_year(&self) -> i64 {
        self.days - days_of_date(self.year, 1, 1) + 1
    }

    /// Returns the week of the year. Week 1 begins with the first Sunday, earlier days are in week
    /// 0.
    pub(super) fn week_of_year(&self) -> i64 {
        (self.day_of_year() + 7 - self.day_of_week()) / 7
    }

    /// Returns the year and the week by ISO 8601. Weeks begin on Monday and belong to the year of
    /// their Thursday.
    pub(super) fn iso_week(&self) -> (i64, i64) {
        let thursday = self.days + 4 - self.iso_day_of_week();
        let (year, _, _) = date_of(thursday);
        (year, (thursday - days_of_date(year, 1, 1)) / 7 + 1)
    }

    /// Returns the days since 1970-01-01.
    pub(super) fn days_since_epoch(&self) -> i64 {
        self.days
    }

    /// Returns the milliseconds since midnight.
    pub(super) fn time_of_day(&self) -> i64 {
        i64::from(self.hour) * HOUR_MILLIS
            + i64::from(self.minute) * MINUTE_MILLIS
            + i64::from(self.second) * SECOND_MILLIS
            + i64::from(self.millisecond)
    }
}

/// Returns the days since 1970-01-01 of a date. Months and days out of range carry over.
///
/// The caller keeps the year within the range of 64-bit dates.
pub(super) fn days_of_date(year: i64, month: i64, day: i64) -> i64 {
    let months = year * 12 + month - 1;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    // Years start in March here, so that the leap day is the last day of a year.
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5;
    era * CYCLE_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year + day - 1 - 719_468
}

/// Returns the days since 1970-01-01 of a day in an ISO 8601 week. Weeks and days out of range
/// carry over.
pub(super) fn days_of_iso_week(year: i64, week: i64, day: i64) -> i64 {
    // 4 January is always in week 1.
    let fourth = days_of_date(year, 1, 4);
    let monday = fourth - (fourth + 3).rem_euclid(7);
    monday + (week - 1) * 7 + day - 1
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    days_of_date(year, month + 1, 1) - days_of_date(year, month, 1)
}

fn date_of(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month as u8, day as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_days() {
        let date = CalendarDate::from_millis(days_of_date(2024, 12, 30) * DAY_MILLIS + 5);
        assert_eq!((date.year, date.month, date.day), (2024, 12, 30));
        assert_eq!((date.iso_day_of_week(), date.day_of_week()), (1, 2));
        assert_eq!(date.iso_week(), (2025, 1));
        assert_eq!((date.day_of_year(), date.week_of_year()), (365, 52));
        assert_eq!(days_of_iso_week(2025, 1, 1), date.days_since_epoch());
        assert_eq!(days_of_date(2024, 14, 0), days_of_date(2025, 1, 31));
        assert_eq!(days_in_month(1900, 2), 28);
        assert_eq!(days_in_month(2000, 2), 29);
    }

    proptest! {
        #[test]
        fn every_instant_has_its_date(millis in any::<i64>()) {
            let date = CalendarDate::from_millis(millis);
            let days = days_of_date(date.year, date.month.into(), date.day.into());
            prop_assert_eq!(i128::from(days) * i128::from(DAY_MILLIS) + i128::from(date.time_of_day()), i128::from(millis));
            let (year, week) = date.iso_week();
            prop_assert_eq!(days_of_iso_week(year, week, date.iso_day_of_week()), days);
        }
    }
}
