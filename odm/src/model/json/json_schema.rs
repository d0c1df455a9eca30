//! JSON Schema of the types of this crate: feature `schemars`.
//!
//! The derive of schemars would require the fields that serde skips, and would publish the links of the documentation.

use std::{any, borrow::Cow, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::TextForm;
use crate::{
    Overflow, Page, PageToken,
    error::{Problem, Violation},
    model::document::{Document, Ref},
    relation::{Link, LinkItem, Linked, Links},
};

/// The JSON Schema of a field with `#[serde(with = "odm::json")]`, for schemars' `with`.
///
/// ```
/// use odm::prelude::*;
///
/// #[derive(Serialize, schemars::JsonSchema)]
/// struct Visit {
///     #[serde(with = "odm::json")]
///     #[schemars(with = "odm::json::AsText<ObjectId>")]
///     id: ObjectId,
///     #[serde(default, with = "odm::json")]
///     #[schemars(with = "odm::json::AsText<Option<DateTime>>")]
///     left: Option<DateTime>,
/// }
///
/// let schema = schemars::schema_for!(Visit).to_value();
/// let (id, left) = (&schema["properties"]["id"], &schema["properties"]["left"]);
/// assert_eq!(id["pattern"], "^[0-9a-fA-F]{24}$");
/// assert_eq!(left["type"], serde_json::json!(["string", "null"]));
/// assert_eq!(left["format"], "date-time");
/// ```
#[derive(Debug)]
pub struct AsText<T>(PhantomData<T>);

impl<T: TextForm> JsonSchema for AsText<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AsText".into()
    }

    fn schema_id() -> Cow<'static, str> {
        any::type_name::<Self>().into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::text_schema(generator)
    }
}

/// Implements `JsonSchema` with the schema of another type.
macro_rules! same_schema {
    ($(impl<$parameter:ident: $bound:ident> for $for:ty where $schema:ty: JsonSchema;)*) => {$(
        impl<$parameter: $bound> JsonSchema for $for
        where
            $schema: JsonSchema,
        {
            fn inline_schema() -> bool {
                <$schema>::inline_schema()
            }

            fn schema_name() -> Cow<'static, str> {
                <$schema>::schema_name()
            }

            fn schema_id() -> Cow<'static, str> {
                <$schema>::schema_id()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$schema>::json_schema(generator)
            }
        }
    )*};
}

same_schema! {
    impl<T: Document> for Ref<T> where T::Id: JsonSchema;
    impl<T: JsonSchema> for Overflow<T> where Vec<T>: JsonSchema;
    impl<X: LinkItem> for Link<X> where Linked<X, AnyId>: JsonSchema;
    impl<X: LinkItem> for Links<X> where Vec<Linked<X, AnyId>>: JsonSchema;
}

/// The id of a missing target of a join: the types of ids in JSON depend on the model.
#[derive(Debug)]
pub struct AnyId;

impl JsonSchema for AnyId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "The id of the missing document" })
    }
}

impl<T: JsonSchema, I: JsonSchema> JsonSchema for Linked<T, I> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Linked_{}", T::schema_name()).into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!(
            "odm::relation::Linked<{}, {}>",
            T::schema_id(),
            I::schema_id()
        )
        .into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                generator.subschema_for::<T>(),
                {
                    "type": "object",
                    "properties": { "missing": generator.subschema_for::<I>() },
                    "required": ["missing"],
                },
            ],
        })
    }
}

impl<T: JsonSchema> JsonSchema for Page<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Page_{}", T::schema_name()).into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!("odm::Page<{}>", T::schema_id()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "items": generator.subschema_for::<Vec<T>>(),
                "next": generator.subschema_for::<Option<PageToken>>(),
                "previous": generator.subschema_for::<Option<PageToken>>(),
            },
            "required": ["items", "next", "previous"],
        })
    }
}

impl JsonSchema for Problem {
    fn schema_name() -> Cow<'static, str> {
        "Problem".into()
    }

    fn schema_id() -> Cow<'static, str> {
        "odm::error::Problem".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "status": generator.subschema_for::<u16>(),
                "title": generator.subschema_for::<String>(),
                "path": generator.subschema_for::<String>(),
                "violations": generator.subschema_for::<Vec<Violation>>(),
            },
            "required": ["status", "title"],
        })
    }
}

impl JsonSchema for Violation {
    fn schema_name() -> Cow<'static, str> {
        "Violation".into()
    }

    fn schema_id() -> Cow<'static, str> {
        "odm::error::Violation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "path": generator.subschema_for::<String>(),
                "message": generator.subschema_for::<String>(),
            },
            "required": ["path", "message"],
        })
    }
}
