//! UUIDs in the formats of older drivers: binary data of subtype 3, with a driver-specific byte order.
//!
//! A [`Uuid`] is stored as binary data of subtype 4. A value of subtype 3 is a [`Decode`](crate::ErrorKind::Decode) error,
//! because the bytes do not identify the driver. A field with a type of this module declares the driver. Filters, updates and
//! inserts then use the same format.
//!
//! ```
//! use odm::{legacy_uuid::JavaUuid, prelude::*};
//!
//! #[derive(Serialize, Deserialize, Document)]
//! #[document(collection = "orders")]
//! struct Order {
//!     #[serde(rename = "_id")]
//!     id: JavaUuid,
//!     customer: Option<JavaUuid>,
//! }
//! # #[derive(Schema)] #[schema(models(Order))] struct Shop;
//!
//! # async fn example(db: odm::Database<Shop>, id: Uuid) -> odm::Result<()> {
//! let order = db.find::<Order>().filter(|o| o.customer().eq(JavaUuid(id))).first().await?;
//! # Ok(())
//! # }
//! ```

use bson::{Binary, Uuid, UuidRepresentation};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{
    language::{
        field::{Field, shape},
        query::Brackets,
    },
    model::{
        document::{Stored, kind},
        projection::{ProjectedFields, Projection},
    },
    schema::{Schema, TargetsInSchema},
};

macro_rules! legacy_uuids {
    ($($(#[$doc:meta])* $name:ident $representation:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub Uuid);

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl From<$name> for Uuid {
            fn from(legacy: $name) -> Self {
                legacy.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let representation = UuidRepresentation::$representation;
                Binary::from_uuid_with_representation(self.0, representation).serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let binary = Binary::deserialize(deserializer)?;
                let uuid = binary.to_uuid_with_representation(UuidRepresentation::$representation);
                uuid.map(Self).map_err(de::Error::custom)
            }
        }

        #[diagnostic::do_not_recommend]
        impl Stored for $name {
            type Kind = kind::Value;
            type Fields<M: 'static, R: 'static, S: 'static> = Field<M, $name, R, S>;
            type ShapeWithDefault<S: 'static> = shape::Defaulted<S>;
            type New = Self;
            const BRACKETS: Brackets = Brackets::BINARY;
        }
        impl<S: Schema> TargetsInSchema<S> for $name {}
        #[diagnostic::do_not_recommend]
        impl Projection for $name {
            type Of = Self;
            const FIELDS: ProjectedFields = ProjectedFields::Whole;
        }
    )*};
}

legacy_uuids! {
    /// A UUID as the C# driver stored it by default before version 3.
    CSharpUuid CSharpLegacy;
    /// A UUID as the Java driver stored it by default before version 4.
    JavaUuid JavaLegacy;
    /// A UUID as PyMongo stored it by default before version 4.
    PythonUuid PythonLegacy;
}
