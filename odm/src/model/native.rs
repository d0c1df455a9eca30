//! Dates and decimals of other crates, stored as BSON dates and decimals: `#[serde(with = "odm::native")]`.
//!
//! serde would store a `chrono::DateTime<Utc>` as a text, which neither indexes nor other clients treat as a date. With this
//! attribute, a field is a BSON date or decimal in documents, filters and updates. A field without the attribute does not
//! compile.
//!
//! | feature | type | stored as |
//! |---|---|---|
//! | `chrono` | `chrono::DateTime<Utc>` | date |
//! | `time` | `time::OffsetDateTime`; reads as UTC | date |
//! | `jiff` | `jiff::Timestamp` | date |
//! | `rust_decimal` | `rust_decimal::Decimal`, with 28 digits instead of the 34 of a `Decimal128`: longer numbers are rounded when read, as in arithmetic of the type, and numbers out of range cannot be read | decimal |
//!
//! The attribute also works on options and arrays; an `Option` additionally needs serde's `default`. BSON dates have a precision
//! of milliseconds. Digits beyond are cut off, in documents and in filters. An insert returns the stored form of the document, so
//! a field that serde skips has its default value. A [`save`](crate::Session::save) does not change the value in memory. In JSON
//! and other text formats these types keep their own form.
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

use crate::model::document;

/// Derived code names this constant: a module of the application with the same name does not have the constant.
#[doc(hidden)]
pub const IS_MODULE_OF_ODM: () = ();

/// Writes the stored form of a value. Used by serde's `with`.
///
/// # Errors
///
/// The errors of the serializer.
pub fn serialize<T: document::Stored, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.serialize_stored(serializer)
}

/// Reads the stored form of a value. Used by serde's `with`.
///
/// # Errors
///
/// The errors of the deserializer, and an error for a value out of range of the type.
pub fn deserialize<'de, T: document::Stored, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    T::deserialize_stored(deserializer)
}

/// A value that serializes to its stored form.
pub(crate) struct AsStored<'a, T>(pub(crate) &'a T);

impl<T: document::Stored> Serialize for AsStored<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_stored(serializer)
    }
}

/// A value that deserializes from its stored form.
pub(crate) struct FromStored<T>(pub(crate) T);

impl<'de, T: document::Stored> Deserialize<'de> for FromStored<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize_stored(deserializer).map(Self)
    }
}
