//! OpenAPI schemas of problems: feature `utoipa`. Pages derive their schema.

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{ArrayBuilder, ObjectBuilder, Schema},
    },
};

use crate::error::{Problem, Violation};

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        let violations = ArrayBuilder::new().items(Violation::schema());
        ObjectBuilder::new()
            .property("status", u16::schema())
            .required("status")
            .property("title", String::schema())
            .required("title")
            .property("path", String::schema())
            .property("violations", violations)
            .into()
    }
}

impl ToSchema for Problem {}

impl PartialSchema for Violation {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .property("path", String::schema())
            .required("path")
            .property("message", String::schema())
            .required("message")
            .into()
    }
}

impl ToSchema for Violation {}
