//! Ids, dates and decimals as text in JSON: `#[serde(with = "odm::json")]`.
//!
//! Without the attribute, JSON contains the extended form of BSON values: `{"$oid": "507f1f77bcf86cd799439011"}`. With the
//! attribute, JSON contains the text that people and other programs expect. The stored form is the same: an `ObjectId` stays an
//! `ObjectId` in documents, filters and updates.
//!
//! | type | text |
//! |---|---|
//! | `ObjectId` | 24 hexadecimal digits: `"507f1f77bcf86cd799439011"` |
//! | `DateTime` | RFC 3339: `"2026-11-27T13:45:00Z"`, with milliseconds if present |
//! | `Decimal128` | the digits: `"19.90"` |
//! | `Uuid` | with hyphens: `"936da01f-9abd-4d9d-80c7-02af85c822a8"` |
//! | `Ref<T>` | the text of the id |
//! | `Option` and `Vec` of these | the text or `null`; an array of texts |
//!
//! The extended form can be read too. An `Option` additionally needs serde's `default`.
//!
//! ```
//! use odm::prelude::*;
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize, Document)]
//! #[document(collection = "visits")]
//! struct Visit {
//!     #[serde(rename = "_id", with = "odm::json")]
//!     id: ObjectId,
//!     #[reference]
//!     #[serde(with = "odm::json")]
//!     page: Ref<Page>,
//!     #[serde(default, with = "odm::json")]
//!     left: Option<DateTime>,
//! }
//!
//! #[derive(Debug, Serialize, Deserialize, Document)]
//! #[document(collection = "pages")]
//! struct Page {
//!     #[serde(rename = "_id", with = "odm::json")]
//!     id: ObjectId,
//! }
//!
//! let id = ObjectId::parse_str("507f1f77bcf86cd799439011")?;
//! let visit = Visit { id, page: Ref::new(id), left: None };
//! let text = r#"{"_id":"507f1f77bcf86cd799439011","page":"507f1f77bcf86cd799439011","left":null}"#;
//! assert_eq!(serde_json::to_string(&visit)?, text);
//! assert_eq!(serde_json::from_str::<Visit>(text)?, visit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "schemars")]
mod json_schema;
#[cfg(feature = "utoipa")]
mod openapi;

use std::{fmt, marker::PhantomData};

use bson::{DateTime, Decimal128, Uuid, oid::ObjectId};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
    ser::Error as _,
};

#[cfg(feature = "schemars")]
pub use json_schema::AsText;

use crate::model::document::{Document, Ref};

/// Derived code names this constant: a module of the application with the same name does not have the constant.
#[doc(hidden)]
pub const IS_MODULE_OF_ODM: () = ();

/// Writes the text form of a value in text formats such as JSON, and the stored form in BSON. Used by serde's `with`.
///
/// # Errors
///
/// The errors of the serializer, and an error for a date after the year 9999.
pub fn serialize<T: TextForm, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.serialize_text(serializer)
}

/// Reads what [`serialize`] writes. Used by serde's `with`.
///
/// # Errors
///
/// The errors of the deserializer, and an error for a text that is no value of the type.
pub fn deserialize<'de, T: TextForm, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize_text(deserializer)
}

/// Types with a text form in JSON.
#[diagnostic::on_unimplemented(
    message = "`odm::json` is for ids, dates, decimals and references, not for a `{Self}`",
    label = "has no text form of its own",
    note = "remove the `with`: numbers, texts and embedded structs need no attribute"
)]
pub trait TextForm: Sized {
    /// Writes the text form in text formats, and the stored form in BSON.
    ///
    /// # Errors
    ///
    /// The errors of the serializer.
    fn serialize_text<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads what [`serialize_text`](Self::serialize_text) writes.
    ///
    /// # Errors
    ///
    /// The errors of the deserializer.
    fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// Returns the JSON Schema of the text form: by default, any string.
    #[cfg(feature = "schemars")]
    fn text_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<String>()
    }
}

/// A BSON value that is written as a text.
trait BsonText: Serialize + for<'de> Deserialize<'de> {
    const EXPECTED: &'static str;

    fn to_text(&self) -> Result<String, String>;
    fn from_text(text: &str) -> Option<Self>;
}

macro_rules! bson_texts {
    ($($value:ty: $expected:literal, $to_text:expr, $from_text:expr, $schema:tt;)*) => {$(
        impl BsonText for $value {
            const EXPECTED: &'static str = $expected;

            fn to_text(&self) -> Result<String, String> {
                let to_text: fn(&Self) -> Result<String, String> = $to_text;
                to_text(self)
            }

            fn from_text(text: &str) -> Option<Self> {
                $from_text(text).ok()
            }
        }

        #[diagnostic::do_not_recommend]
        impl TextForm for $value {
            fn serialize_text<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if !serializer.is_human_readable() {
                    return self.serialize(serializer);
                }
                serializer.serialize_str(&self.to_text().map_err(S::Error::custom)?)
            }

            fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match deserializer.is_human_readable() {
                    true => deserializer.deserialize_any(TextOrExtended(PhantomData)),
                    false => Self::deserialize(deserializer),
                }
            }

            #[cfg(feature = "schemars")]
            fn text_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )*};
}

bson_texts! {
    ObjectId: "an id of 24 hexadecimal digits", |id| Ok(id.to_hex()), ObjectId::parse_str,
        { "type": "string", "pattern": "^[0-9a-fA-F]{24}$" };
    DateTime: "a date as in RFC 3339",
        |date| date.try_to_rfc3339_string().map_err(|error| error.to_string()),
        DateTime::parse_rfc3339_str,
        { "type": "string", "format": "date-time" };
    Decimal128: "a decimal number as a text", |number| Ok(number.to_string()), str::parse::<Decimal128>,
        { "type": "string" };
    Uuid: "a UUID with hyphens", |id| Ok(id.to_string()), Uuid::parse_str,
        { "type": "string", "format": "uuid" };
}

/// Reads a text, or the extended form of BSON values in JSON.
///
/// For a tagged enum, serde buffers the fields and then treats BSON as a text format, so the extended form occurs when stored
/// documents are read.
struct TextOrExtended<T>(PhantomData<T>);

impl<'de, T: BsonText> Visitor<'de> for TextOrExtended<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        // Without the error of the parser, which names types of the BSON library.
        let invalid = || E::custom(format_args!("`{text}` is not {}", T::EXPECTED));
        T::from_text(text).ok_or_else(invalid)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Ids that are texts and numbers in JSON already, so that a `Ref` with such an id accepts the attribute too.
macro_rules! same_in_json {
    ($($value:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl TextForm for $value {
            fn serialize_text<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }

            fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize(deserializer)
            }

            #[cfg(feature = "schemars")]
            fn text_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<Self>()
            }
        }
    )*};
}

same_in_json!(String, i32, i64, u32, u64);

#[diagnostic::do_not_recommend]
impl<T: Document<Id: TextForm>> TextForm for Ref<T> {
    fn serialize_text<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id().serialize_text(serializer)
    }

    fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::Id::deserialize_text(deserializer).map(Self::from_id)
    }

    #[cfg(feature = "schemars")]
    fn text_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::Id::text_schema(generator)
    }
}

#[diagnostic::do_not_recommend]
impl<T: TextForm> TextForm for Option<T> {
    fn serialize_text<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(TextOf).serialize(serializer)
    }

    fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<FromText<T>>::deserialize(deserializer)?.map(|value| value.0))
    }

    #[cfg(feature = "schemars")]
    fn text_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Option<AsText<T>>>()
    }
}

#[diagnostic::do_not_recommend]
impl<T: TextForm> TextForm for Vec<T> {
    fn serialize_text<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(TextOf))
    }

    fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let elements = Vec::<FromText<T>>::deserialize(deserializer)?;
        Ok(elements.into_iter().map(|element| element.0).collect())
    }

    #[cfg(feature = "schemars")]
    fn text_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Vec<AsText<T>>>()
    }
}

/// A value that serializes in its text form.
struct TextOf<'a, T>(&'a T);

impl<T: TextForm> Serialize for TextOf<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_text(serializer)
    }
}

/// A value that deserializes from its text form.
struct FromText<T>(T);

impl<'de, T: TextForm> Deserialize<'de> for FromText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize_text(deserializer).map(Self)
    }
}
