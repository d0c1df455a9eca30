//! OpenAPI schemas of the types of this crate: feature `utoipa`.

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Schema, SchemaType},
    },
};

use crate::{
    Overflow, Page,
    error::{Problem, Violation},
    relation::{Link, LinkItem, Linked, Links},
};

type NamedSchemas = Vec<(String, RefOr<Schema>)>;

impl<T: PartialSchema, I: PartialSchema> PartialSchema for Linked<T, I> {
    fn schema() -> RefOr<Schema> {
        linked_schema(T::schema(), I::schema())
    }
}

impl<T: ToSchema, I: ToSchema> ToSchema for Linked<T, I> {
    fn schemas(schemas: &mut NamedSchemas) {
        T::schemas(schemas);
        I::schemas(schemas);
    }
}

fn linked_schema(document: RefOr<Schema>, id: RefOr<Schema>) -> RefOr<Schema> {
    let missing = ObjectBuilder::new()
        .property("missing", id)
        .required("missing");
    AnyOfBuilder::new().item(document).item(missing).into()
}

/// The schema of the id of a missing target: the types of ids in JSON depend on the model.
fn any_id() -> RefOr<Schema> {
    let description = "The id of the missing document";
    ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some(description))
        .into()
}

impl<X: LinkItem + PartialSchema> PartialSchema for Link<X> {
    fn schema() -> RefOr<Schema> {
        linked_schema(X::schema(), any_id())
    }
}

impl<X: LinkItem + ToSchema> ToSchema for Link<X> {
    fn schemas(schemas: &mut NamedSchemas) {
        X::schemas(schemas);
    }
}

impl<X: LinkItem + PartialSchema> PartialSchema for Links<X> {
    fn schema() -> RefOr<Schema> {
        array_of(Link::<X>::schema())
    }
}

impl<X: LinkItem + ToSchema> ToSchema for Links<X> {
    fn schemas(schemas: &mut NamedSchemas) {
        X::schemas(schemas);
    }
}

impl<T: PartialSchema> PartialSchema for Overflow<T> {
    fn schema() -> RefOr<Schema> {
        array_of(T::schema())
    }
}

impl<T: ToSchema> ToSchema for Overflow<T> {
    fn schemas(schemas: &mut NamedSchemas) {
        T::schemas(schemas);
    }
}

fn array_of(items: RefOr<Schema>) -> RefOr<Schema> {
    ArrayBuilder::new().items(items).into()
}

impl<T: PartialSchema> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let token = <Option<String>>::schema();
        ObjectBuilder::new()
            .property("items", array_of(T::schema()))
            .required("items")
            .property("next", token.clone())
            .required("next")
            .property("previous", token)
            .required("previous")
            .into()
    }
}

impl<T: ToSchema> ToSchema for Page<T> {
    fn schemas(schemas: &mut NamedSchemas) {
        T::schemas(schemas);
    }
}

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .property("status", u16::schema())
            .required("status")
            .property("title", String::schema())
            .required("title")
            .property("path", String::schema())
            .property("violations", array_of(Violation::schema()))
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
