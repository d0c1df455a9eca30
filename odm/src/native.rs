//! Dates and decimals of other crates, stored as BSON's own: `#[serde(with = "odm::native")]`.
//!
//! serde would store a `chrono::DateTime<Utc>` as a text, which no index orders and no other client takes for a date. A field
//! with this attribute is a BSON date, or a decimal, in the document as in every filter and update. A field without it does
//! not compile.
//!
//! | feature | type | stored as |
//! |---|---|---|
//! | `chrono` | `chrono::DateTime<Utc>` | date |
//! | `time` | `time::OffsetDateTime`; it comes back in UTC | date |
//! | `jiff` | `jiff::Timestamp` | date |
//! | `rust_decimal` | `rust_decimal::Decimal`, whose 28 digits are fewer than the 34 of a `Decimal128`: a number with more is rounded when it is read, as arithmetic of the type rounds, and one beyond the range of the type cannot be read | decimal |
//!
//! Options and arrays of them too; an `Option` needs serde's `default` beside it. BSON's dates have milliseconds: what a value has
//! beyond is cut off, in documents and in filters alike, and an inserted document comes back as it is stored: a field that serde
//! skips is then its default. A [`save`](crate::Session::save) leaves the value in memory as it is. In JSON and other text formats
//! these types keep their own form.
//!
//! ```
//! # #[cfg(feature = "chrono")] {
//! use odm::prelude::*;
//! use chrono::{DateTime, Utc};
//!
//! #[derive(Serialize, Deserialize, Document)]
//! #[document(collection = "visits", index(-at))]
//! struct Visit {
//!     #[serde(rename = "_id")]
//!     id: ObjectId,
//!     #[serde(with = "odm::native")]
//!     at: DateTime<Utc>,
//!     #[serde(default, with = "odm::native")]
//!     left: Option<DateTime<Utc>>,
//! }
//! # #[derive(Schema)] #[schema(models(Visit))] struct Site;
//! # async fn example(db: odm::Database<Site>) -> odm::Result<()> {
//! let today = Utc::now() - chrono::Duration::hours(24);
//! let visits = db.find::<Visit>().filter(|v| v.at().gte(today) & v.left().is_none()).all().await?;
//! # Ok(())
//! # }
//! # }
//! ```

#[cfg(any(feature = "chrono", feature = "time", feature = "jiff"))]
mod dates;
#[cfg(feature = "rust_decimal")]
mod decimals;
#[cfg(any(
    feature = "chrono",
    feature = "time",
    feature = "jiff",
    feature = "rust_decimal"
))]
mod tagged;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::document;

/// Writes a value as BSON's own; for serde's `with`.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<T: document::Stored, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.serialize_stored(serializer)
}

/// Reads a value from BSON's own; for serde's `with`.
///
/// # Errors
///
/// Those of the deserializer, and of a value that the type cannot hold.
pub fn deserialize<'de, T: document::Stored, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    T::deserialize_stored(deserializer)
}

/// A value that is written as it is stored.
pub(crate) struct Stored<'a, T>(pub(crate) &'a T);

impl<T: document::Stored> Serialize for Stored<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_stored(serializer)
    }
}

/// A value that is read as it is stored.
pub(crate) struct Owned<T>(pub(crate) T);

impl<'de, T: document::Stored> Deserialize<'de> for Owned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize_stored(deserializer).map(Self)
    }
}
