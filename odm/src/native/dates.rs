//! Dates, to the millisecond.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::tagged::own_or_bson;
use crate::{
    __private::Timestamp,
    document::{Stored, kind},
    field::{Date, Field, Ordered, Sorts},
    projection::{Projection, Reads},
    query::{Brackets, Operand},
    schema::{Closed, Schema},
};

/// A date of another crate.
trait Native: Sized {
    /// Milliseconds since 1970, rounded down.
    fn millis(&self) -> Option<i64>;
    /// `None` for a date that the type cannot hold.
    fn from_millis(millis: i64) -> Option<Self>;
}

macro_rules! dates {
    ($date:ty) => {
        #[diagnostic::do_not_recommend]
        impl Stored for $date {
            type Kind = kind::Native;
            type Fields<M: 'static, R: 'static, S: 'static> = Field<M, $date, R, S>;
            type ShapeWithDefault<S: 'static> = crate::field::shape::Defaulted<S>;
            type New = Self;
            const BRACKETS: Brackets = Brackets::DATE;
            const ROUNDS: bool = true;

            fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    return self.serialize(serializer);
                }
                let millis = self.millis().ok_or_else(|| {
                    serde::ser::Error::custom(format!("{self} is too far away for a date"))
                })?;
                bson::DateTime::from_millis(millis).serialize(serializer)
            }

            fn deserialize_stored<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let convert = |date: bson::DateTime| {
                    Self::from_millis(date.timestamp_millis()).ok_or_else(|| {
                        format!("{date} is too far away for a `{}`", stringify!($date))
                    })
                };
                if deserializer.is_human_readable() {
                    return own_or_bson(deserializer, convert);
                }
                convert(bson::DateTime::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
        impl<S: Schema> Closed<S> for $date {}
        #[diagnostic::do_not_recommend]
        impl Projection for $date {
            type Of = Self;
            const READS: Reads = Reads::Whole;
        }
        #[diagnostic::do_not_recommend]
        impl Operand for $date {
            type As = Self;
        }
        #[diagnostic::do_not_recommend]
        impl Ordered for $date {}
        #[diagnostic::do_not_recommend]
        impl Sorts for $date {}
        #[diagnostic::do_not_recommend]
        impl Date for $date {}
        #[diagnostic::do_not_recommend]
        impl Date for Option<$date> {}
        #[diagnostic::do_not_recommend]
        impl Timestamp for $date {
            fn at(moment: bson::DateTime) -> Self {
                // Each of these types can hold the present time.
                Self::from_millis(moment.timestamp_millis()).unwrap_or(<$date>::UNIX_EPOCH)
            }
        }
    };
}

#[cfg(feature = "chrono")]
impl Native for chrono::DateTime<chrono::Utc> {
    fn millis(&self) -> Option<i64> {
        Some(self.timestamp_millis())
    }
    fn from_millis(millis: i64) -> Option<Self> {
        Self::from_timestamp_millis(millis)
    }
}
#[cfg(feature = "chrono")]
dates!(chrono::DateTime<chrono::Utc>);

#[cfg(any(feature = "time", feature = "jiff"))]
const NANOS: i128 = 1_000_000;

#[cfg(feature = "time")]
impl Native for time::OffsetDateTime {
    fn millis(&self) -> Option<i64> {
        i64::try_from(self.unix_timestamp_nanos().div_euclid(NANOS)).ok()
    }
    fn from_millis(millis: i64) -> Option<Self> {
        Self::from_unix_timestamp_nanos(i128::from(millis) * NANOS).ok()
    }
}
#[cfg(feature = "time")]
dates!(time::OffsetDateTime);

#[cfg(feature = "jiff")]
impl Native for jiff::Timestamp {
    fn millis(&self) -> Option<i64> {
        i64::try_from(self.as_nanosecond().div_euclid(NANOS)).ok()
    }
    fn from_millis(millis: i64) -> Option<Self> {
        Self::from_millisecond(millis).ok()
    }
}
#[cfg(feature = "jiff")]
dates!(jiff::Timestamp);
