//! Dates of other crates, with a precision of milliseconds.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::tagged::deserialize_own_or_bson;
use crate::{
    __private::Timestamp,
    language::{
        field::{Date, ElementSortKey, Field, Ordered},
        query::{Brackets, Operand},
    },
    model::{
        document::{Stored, kind},
        projection::{ProjectedFields, Projection},
    },
    schema::{Schema, TargetsInSchema},
};

/// A date type of another crate.
trait NativeDate: Sized {
    /// Returns the milliseconds since 1970, rounded down.
    fn to_millis(&self) -> Option<i64>;
    /// Returns `None` for a date out of range of the type.
    fn from_millis(millis: i64) -> Option<Self>;
}

macro_rules! dates {
    ($date:ty) => {
        #[diagnostic::do_not_recommend]
        impl Stored for $date {
            type Kind = kind::Native;
            type Fields<M: 'static, R: 'static, S: 'static> = Field<M, $date, R, S>;
            type ShapeWithDefault<S: 'static> = crate::language::field::shape::Defaulted<S>;
            type New = Self;
            const BRACKETS: Brackets = Brackets::DATE;
            const ROUNDS_VALUES: bool = true;

            fn serialize_stored<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    return self.serialize(serializer);
                }
                let millis = self.to_millis().ok_or_else(|| {
                    serde::ser::Error::custom(format!("{self} is out of range for a BSON date"))
                })?;
                bson::DateTime::from_millis(millis).serialize(serializer)
            }

            fn deserialize_stored<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let convert = |date: bson::DateTime| {
                    Self::from_millis(date.timestamp_millis()).ok_or_else(|| {
                        format!("{date} is out of range for a `{}`", stringify!($date))
                    })
                };
                if deserializer.is_human_readable() {
                    return deserialize_own_or_bson(deserializer, convert);
                }
                convert(bson::DateTime::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
        impl<S: Schema> TargetsInSchema<S> for $date {}
        #[diagnostic::do_not_recommend]
        impl Projection for $date {
            type Of = Self;
            const FIELDS: ProjectedFields = ProjectedFields::Whole;
        }
        #[diagnostic::do_not_recommend]
        impl Operand for $date {
            type As = Self;
        }
        #[diagnostic::do_not_recommend]
        impl Ordered for $date {}
        #[diagnostic::do_not_recommend]
        impl ElementSortKey for $date {}
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
