//! Types that serde stores in another form than the database's own: `#[serde(with = "odm::native")]`.
//!
//! serde would store a `chrono::DateTime<Utc>` as a text, which neither indexes nor other clients treat as a date. With this
//! attribute, a field is a BSON date in documents, filters and updates. A field without the attribute does not compile.
//!
//! | feature | type | stored as |
//! |---|---|---|
//! | `chrono` | `chrono::DateTime<Utc>` | date |
//! | `time` | `time::OffsetDateTime`; reads as UTC | date |
//! | `jiff` | `jiff::Timestamp` | date |
//! | `chrono` | `chrono::NaiveDate` | date, at midnight UTC |
//! | `time` | `time::Date` | date, at midnight UTC |
//! | `jiff` | `jiff::civil::Date` | date, at midnight UTC |
//! | | `std::time::Duration` | int64, in milliseconds |
//! | `uuid` | `uuid::Uuid` | binary data of subtype 4, as `bson::Uuid` |
//! | `rust_decimal` | `rust_decimal::Decimal`, with 28 digits instead of the 34 of a `Decimal128`: longer numbers are rounded when read, as in arithmetic of the type, and numbers out of range cannot be read | decimal |
//! | | a map with integers or ids as [keys](crate::field::MapKey) | document, with the texts of the keys |
//!
//! The attribute also works on options, arrays, sets and maps of these types; an `Option` additionally needs serde's `default`.
//! Dates and durations have a precision of milliseconds. Digits beyond are cut off, in documents and in filters. A stored date
//! with a time cannot be read as a date at midnight. An insert returns the stored form of the document, so
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
mod durations;
#[cfg(any(
    feature = "chrono",
    feature = "time",
    feature = "jiff",
    feature = "rust_decimal"
))]
mod tagged;
#[cfg(feature = "uuid")]
mod uuids;

use std::fmt;

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

/// A type that is stored as a `Form` of BSON.
trait NativeForm: Sized {
    type Form: Serialize + for<'de> Deserialize<'de>;
    /// Returns the stored form, or an error for a value out of range of the form.
    fn to_form(&self) -> Result<Self::Form, impl fmt::Display>;
    /// Returns the value, or an error for a form out of range of the type.
    fn from_form(form: Self::Form) -> Result<Self, impl fmt::Display>;
}

/// Implements the traits of a type with a [`NativeForm`]. A text format such as JSON has the type's own form, which
/// `$deserialize` reads.
macro_rules! native_values {
    ($native:ty: [$($bracket:ident)*], rounds: $rounds:literal, $deserialize:expr) => {
        #[diagnostic::do_not_recommend]
        impl crate::model::document::Stored for $native {
            type Kind = crate::model::document::kind::Native;
            type Fields<M: 'static, R: 'static, S: 'static> =
                crate::language::field::Field<M, $native, R, S>;
            type ShapeWithDefault<S: 'static> = crate::language::field::shape::Defaulted<S>;
            type New = Self;
            const BRACKETS: crate::language::query::Brackets =
                crate::language::query::Brackets::NONE$(.or(crate::language::query::Brackets::$bracket))*;
            const ROUNDS_VALUES: bool = $rounds;

            fn serialize_stored<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                use super::NativeForm as _;
                if serializer.is_human_readable() {
                    return serde::Serialize::serialize(self, serializer);
                }
                let form = self.to_form().map_err(serde::ser::Error::custom)?;
                serde::Serialize::serialize(&form, serializer)
            }

            fn deserialize_stored<'de, D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    return $deserialize(deserializer);
                }
                let form = serde::Deserialize::deserialize(deserializer)?;
                super::NativeForm::from_form(form).map_err(serde::de::Error::custom)
            }
        }
        impl<S: crate::schema::Schema> crate::schema::TargetsInSchema<S> for $native {}
        #[diagnostic::do_not_recommend]
        impl crate::model::projection::Projection for $native {
            type Of = Self;
            const FIELDS: crate::model::projection::ProjectedFields =
                crate::model::projection::ProjectedFields::Whole;
        }
        #[diagnostic::do_not_recommend]
        impl crate::language::field::Ordered for $native {}
    };
}
use native_values;

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
