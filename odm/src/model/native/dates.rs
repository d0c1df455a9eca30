//! Dates of other crates, with a precision of milliseconds, and dates without a time.

use std::fmt;

use super::{NativeForm, native_values, tagged::deserialize_own_or_bson};
use crate::{
    __private::Timestamp,
    language::{
        field::{Date, ElementSortKey},
        query::Operand,
    },
};

/// A date type of another crate.
trait NativeDate: Sized {
    /// Returns the milliseconds since 1970, rounded down.
    fn to_millis(&self) -> Option<i64>;
    /// Returns `None` for a date out of range of the type.
    fn from_millis(millis: i64) -> Option<Self>;
}

macro_rules! native_form {
    ($date:ty, rounds: $rounds:literal, $from_millis:expr) => {
        impl NativeForm for $date {
            type Form = bson::DateTime;

            fn to_form(&self) -> Result<bson::DateTime, impl fmt::Display> {
                let millis = self.to_millis();
                let millis = millis.ok_or_else(|| format!("{self} is out of range for a BSON date"));
                millis.map(bson::DateTime::from_millis)
            }

            fn from_form(date: bson::DateTime) -> Result<Self, impl fmt::Display> {
                let value = $from_millis(date.timestamp_millis());
                value.ok_or_else(|| format!("{date} is no value of a `{}`", stringify!($date)))
            }
        }
        native_values!($date: [DATE], rounds: $rounds, |deserializer| {
            deserialize_own_or_bson(deserializer, <$date>::from_form)
        });
        #[diagnostic::do_not_recommend]
        impl Operand for $date {
            type As = Self;
        }
        #[diagnostic::do_not_recommend]
        impl ElementSortKey for $date {}
    };
}

macro_rules! dates {
    ($date:ty) => {
        native_form!($date, rounds: true, Self::from_millis);
        #[diagnostic::do_not_recommend]
        impl Date for $date {}
        #[diagnostic::do_not_recommend]
        impl Date for Option<$date> {}
        #[diagnostic::do_not_recommend]
        impl Timestamp for $date {
            fn from_datetime(moment: bson::DateTime) -> Self {
                // Every supported type can hold the current time.
                Self::from_millis(moment.timestamp_millis()).unwrap_or(<$date>::UNIX_EPOCH)
            }
        }
    };
}

/// A date without a time is stored as its midnight in UTC, as the drivers of other languages do. A stored date with a time is not
/// read: a save would lose the time.
macro_rules! civil_dates {
    ($date:ty) => {
        native_form!($date, rounds: false, |millis: i64| {
            millis.rem_euclid(MILLIS_PER_DAY).eq(&0).then(|| Self::from_millis(millis)).flatten()
        });
    };
}

#[cfg(any(feature = "chrono", feature = "time", feature = "jiff"))]
const MILLIS_PER_DAY: i64 = 86_400_000;

#[cfg(feature = "chrono")]
impl NativeDate for chrono::DateTime<chrono::Utc> {
    fn to_millis(&self) -> Option<i64> {
        Some(self.timestamp_millis())
    }
    fn from_millis(millis: i64) -> Option<Self> {
        Self::from_timestamp_millis(millis)
    }
}
#[cfg(feature = "chrono")]
dates!(chrono::DateTime<chrono::Utc>);

#[cfg(any(feature = "time", feature = "jiff"))]
const NANOS_PER_MILLI: i128 = 1_000_000;

#[cfg(feature = "time")]
impl NativeDate for time::OffsetDateTime {
    fn to_millis(&self) -> Option<i64> {
        i64::try_from(self.unix_timestamp_nanos().div_euclid(NANOS_PER_MILLI)).ok()
    }
    fn from_millis(millis: i64) -> Option<Self> {
        Self::from_unix_timestamp_nanos(i128::from(millis) * NANOS_PER_MILLI).ok()
    }
}
#[cfg(feature = "time")]
dates!(time::OffsetDateTime);

#[cfg(feature = "jiff")]
impl NativeDate for jiff::Timestamp {
    fn to_millis(&self) -> Option<i64> {
        i64::try_from(self.as_nanosecond().div_euclid(NANOS_PER_MILLI)).ok()
    }
    fn from_millis(millis: i64) -> Option<Self> {
        Self::from_millisecond(millis).ok()
    }
}
#[cfg(feature = "jiff")]
dates!(jiff::Timestamp);

#[cfg(feature = "chrono")]
impl NativeDate for chrono::NaiveDate {
    fn to_millis(&self) -> Option<i64> {
        Some(
            self.and_time(chrono::NaiveTime::MIN)
                .and_utc()
                .timestamp_millis(),
        )
    }
    fn from_millis(millis: i64) -> Option<Self> {
        chrono::DateTime::from_timestamp_millis(millis).map(|date| date.date_naive())
    }
}
#[cfg(feature = "chrono")]
civil_dates!(chrono::NaiveDate);

#[cfg(feature = "time")]
impl NativeDate for time::Date {
    fn to_millis(&self) -> Option<i64> {
        self.midnight().assume_utc().to_millis()
    }
    fn from_millis(millis: i64) -> Option<Self> {
        time::OffsetDateTime::from_millis(millis).map(time::OffsetDateTime::date)
    }
}
#[cfg(feature = "time")]
civil_dates!(time::Date);

#[cfg(feature = "jiff")]
impl NativeDate for jiff::civil::Date {
    fn to_millis(&self) -> Option<i64> {
        let midnight = jiff::tz::Offset::UTC.to_timestamp(self.at(0, 0, 0, 0));
        midnight.ok()?.to_millis()
    }
    fn from_millis(millis: i64) -> Option<Self> {
        let moment = jiff::Timestamp::from_millis(millis)?;
        Some(jiff::tz::Offset::UTC.to_datetime(moment).date())
    }
}
#[cfg(feature = "jiff")]
civil_dates!(jiff::civil::Date);
