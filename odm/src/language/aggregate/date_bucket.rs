//! Groups of dates: by hour, day, week, month, quarter or year.

use std::{fmt, marker::PhantomData};

use bson::{RawBson, RawBsonRef, RawDocumentBuf};

use super::group::{GroupKey, append_traversed_arrays};
use crate::{
    Result,
    language::{
        field::{Date, Field, OptionalPlace, Path, Place, SameScope},
        query::{append_field, single_field_document},
    },
    model::{decode, document::Stored},
};

/// The hour, day, week, month, quarter or year of a date, as the key of a group. The value is the start of the time span.
///
/// ```
/// # use odm::prelude::*;
/// # #[derive(Serialize, Deserialize, Document)]
/// # #[document(collection = "orders")]
/// # struct Order { #[serde(rename = "_id")] id: i64, placed: DateTime, total: i64 }
/// # #[derive(Schema)] #[schema(models(Order))] struct Shop;
/// # #[cfg(feature = "engine")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> odm::Result<()> {
/// # let db = odm::Database::<Shop>::open("memory:").await?;
/// let date = |text| DateTime::parse_rfc3339_str(text).expect("a date");
/// # for (id, placed, total) in [(1, "2024-05-17T21:00:00Z", 10), (2, "2024-05-17T22:30:00Z", 20), (3, "2024-05-18T10:00:00Z", 5)] {
/// #     db.insert(Order { id, placed: date(placed), total }).await?;
/// # }
/// let days: Vec<(DateTime, i64)> = db
///     .find::<Order>()
///     .group_by(|o| o.placed().by_day("Europe/Paris"))
///     .select(|g| g.sum(|o| o.total()))
///     .sort(|day, _| day.asc())
///     .all()
///     .await?;
/// // The day in Paris begins at 22:00 in UTC.
/// assert_eq!(days, [(date("2024-05-16T22:00:00Z"), 10), (date("2024-05-17T22:00:00Z"), 25)]);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "engine"))]
/// # fn main() {}
/// ```
pub struct DateBucket<M, V> {
    path: Path,
    unit: &'static str,
    timezone: String,
    of: PhantomData<fn() -> (M, V)>,
}

macro_rules! buckets {
    ($($(#[$doc:meta])* $method:ident $unit:literal;)*) => {
        /// Time spans as keys of a group: see [`DateBucket`].
        ///
        /// The time zone is `UTC`, an Olson name such as `Europe/Paris`, or an offset such as `+02:00`. An unknown time zone is an
        /// error of the backend.
        impl<M, T: Stored + Date, R, S> Field<M, T, R, S> {
            $(
                $(#[$doc])*
                pub fn $method(&self, timezone: impl Into<String>) -> DateBucket<M, T> {
                    DateBucket::new(self.path(), $unit, timezone.into())
                }
            )*
        }

        /// Time spans of optional dates as keys of a group. Null and missing dates form one group.
        impl<M, T: Stored + Date, R, S> OptionalPlace<M, T, R, S> {
            $(
                $(#[$doc])*
                pub fn $method(&self, timezone: impl Into<String>) -> DateBucket<M, Option<T>> {
                    DateBucket::new(self.path(), $unit, timezone.into())
                }
            )*
        }
    };
}
buckets! {
    /// Groups by hour.
    by_hour "hour";
    /// Groups by day.
    by_day "day";
    /// Groups by week, from Monday on.
    by_week "week";
    /// Groups by month.
    by_month "month";
    /// Groups by quarter.
    by_quarter "quarter";
    /// Groups by year.
    by_year "year";
}

impl<M, V> DateBucket<M, V> {
    fn new(path: Path, unit: &'static str, timezone: String) -> Self {
        Self {
            path,
            unit,
            timezone,
            of: PhantomData,
        }
    }
}

impl<M, V> fmt::Debug for DateBucket<M, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {} in {}", self.path, self.unit, self.timezone)
    }
}

#[diagnostic::do_not_recommend]
impl<T, M: SameScope<T>, V: Stored> GroupKey<T> for DateBucket<M, V> {
    type Value = V;

    fn key_expression(&self) -> Result<RawBson> {
        let mut parts = RawDocumentBuf::new();
        append_field(&mut parts, "date", self.path.to_unwound_expression()?)?;
        append_field(&mut parts, "unit", self.unit)?;
        append_field(&mut parts, "timezone", self.timezone.as_str())?;
        append_field(&mut parts, "startOfWeek", "monday")?;
        Ok(single_field_document("$dateTrunc", parts)?.into())
    }

    fn append_arrays(&self, arrays: &mut Vec<String>) {
        append_traversed_arrays(&self.path, arrays);
    }

    fn decode_key(&self, key: RawBsonRef<'_>) -> Result<V> {
        let value = decode::decode_value(&RawBson::from(key));
        value.map_err(|error| error.with_path(self.path.to_string()))
    }
}
