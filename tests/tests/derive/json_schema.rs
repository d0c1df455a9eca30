//! JSON Schema and OpenAPI schemas describe the JSON of documents, joins, pages and problems.

use odm::{
    Error, ErrorKind, Page,
    backend::Engine,
    prelude::*,
    relation::{Link, Links},
};
use schemars::JsonSchema;
use serde_json::{Value, json};
use utoipa::{OpenApi, ToSchema};

#[derive(Debug, Clone, Serialize, Deserialize, Document, JsonSchema, ToSchema)]
#[document(collection = "tickets")]
struct Ticket {
    #[serde(rename = "_id", with = "odm::json")]
    #[schemars(with = "odm::json::AsText<ObjectId>")]
    #[schema(value_type = String)]
    id: ObjectId,
    #[reference]
    #[serde(with = "odm::json")]
    #[schemars(with = "odm::json::AsText<Ref<Concert>>")]
    #[schema(value_type = String)]
    concert: Ref<Concert>,
    #[reference(max = 3)]
    #[serde(with = "odm::json")]
    #[schemars(with = "odm::json::AsText<Vec<Ref<Concert>>>")]
    #[schema(value_type = Vec<String>)]
    others: Vec<Ref<Concert>>,
    #[serde(default, with = "odm::json")]
    #[schemars(with = "odm::json::AsText<Option<DateTime>>")]
    #[schema(value_type = Option<String>, format = DateTime)]
    used: Option<DateTime>,
    #[reference]
    #[schema(value_type = i64)]
    seat: Ref<Seat>,
    #[embed(overflow(after = 50, into = "more_notes"))]
    #[schema(value_type = Vec<String>)]
    notes: Overflow<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document, JsonSchema, ToSchema)]
#[document(collection = "concerts")]
struct Concert {
    #[serde(rename = "_id", with = "odm::json")]
    #[schemars(with = "odm::json::AsText<ObjectId>")]
    #[schema(value_type = String)]
    id: ObjectId,
    title: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "seats")]
struct Seat {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Ticket, Concert, Seat))]
struct Hall;

#[derive(Serialize, JsonSchema)]
struct TicketAnswer {
    ticket: Ticket,
    concert: Link<Concert>,
    others: Links<Concert>,
}

/// Returns the first difference between a JSON value and a schema. `root` resolves references.
fn first_difference(schema: &Value, value: &Value, root: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let Some(target) = root.pointer(reference.trim_start_matches('#')) else {
            return Some(format!("{reference} is not defined"));
        };
        return first_difference(target, value, root);
    }
    if let Some(alternatives) = schema["anyOf"].as_array() {
        let differences: Option<Vec<_>> = alternatives
            .iter()
            .map(|schema| first_difference(schema, value, root))
            .collect();
        return differences.map(|differences| differences.join(" and "));
    }
    let types = match &schema["type"] {
        Value::Null => return schema.get("properties").map(|_| "no type".to_owned()),
        Value::Array(types) => types.clone(),
        single => vec![single.clone()],
    };
    let actual = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&actual.into()) {
        return Some(format!("{value} is no {types:?}"));
    }
    if let Value::Array(elements) = value {
        let mut elements = elements.iter();
        return elements.find_map(|element| first_difference(&schema["items"], element, root));
    }
    let fields = value.as_object()?;
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut missing = required.iter().filter_map(Value::as_str);
    if let Some(name) = missing.find(|name| !fields.contains_key(*name)) {
        return Some(format!("{value} lacks {name}"));
    }
    fields
        .iter()
        .find_map(|(name, value)| match schema["properties"].get(name) {
            None => Some(format!("the schema lacks {name}")),
            Some(schema) => first_difference(schema, value, root),
        })
}

#[track_caller]
fn assert_described<T: Serialize + JsonSchema>(value: &T) {
    let schema = schemars::schema_for!(T).to_value();
    let value = serde_json::to_value(value).unwrap();
    assert_eq!(first_difference(&schema, &value, &schema), None);
    // The check fails for a value of another type.
    assert!(first_difference(&schema, &json!({ "other": 1 }), &schema).is_some());
}

#[utoipa::path(get, path = "/tickets", responses(
    (status = 200, body = Page<Ticket>),
    (status = 400, body = odm::Problem),
))]
#[expect(dead_code, reason = "utoipa reads only the attribute")]
fn list_tickets() {}

#[derive(OpenApi)]
#[openapi(paths(list_tickets))]
struct Api;

#[track_caller]
fn assert_described_in_openapi<T: Serialize>(value: &T, status: &str) {
    let api = serde_json::to_value(Api::openapi()).unwrap();
    let answer = &api["paths"]["/tickets"]["get"]["responses"][status];
    let schema = &answer["content"]["application/json"]["schema"];
    let value = serde_json::to_value(value).unwrap();
    assert_eq!(first_difference(schema, &value, &api), None);
    assert!(first_difference(schema, &json!({ "other": 1 }), &api).is_some());
}

#[tokio::test]
async fn schemas_describe_the_json() {
    let db = odm::Database::<Hall>::with_backend(std::sync::Arc::new(Engine::memory()));
    db.sync_indexes().await.unwrap();
    let (present, deleted) = (ObjectId::new(), ObjectId::new());
    for id in [present, deleted] {
        let title = "A concert".to_owned();
        db.insert(Concert { id, title }).await.unwrap();
    }
    db.insert(Seat { id: 1 }).await.unwrap();
    let references = [present, deleted].map(Ref::new);
    for (concert, used) in references.iter().zip([None, Some(DateTime::now())]) {
        let ticket = Ticket {
            id: ObjectId::new(),
            concert: *concert,
            others: references.to_vec(),
            used,
            seat: Ref::new(1),
            notes: Overflow::from(["a note".to_owned()]),
        };
        db.insert(ticket).await.unwrap();
    }
    db.delete::<Concert>(deleted).await.unwrap();

    let tickets = db.find::<Ticket>().sort(|t| t.id().asc());
    let page = tickets.page(1).await.unwrap();
    assert!(page.next.is_some() && page.previous.is_none());
    assert_described::<Page<Ticket>>(&page);
    assert_described_in_openapi(&page, "200");

    let joined = db
        .find::<Ticket>()
        .with(|t| t.concert())
        .with(|t| t.others());
    for (ticket, concert, others) in joined.all().await.unwrap() {
        let answer = TicketAnswer {
            ticket,
            concert,
            others,
        };
        assert_described(&answer);
    }

    let duplicate = Error::new(ErrorKind::DuplicateKey, "exists").with_path("title");
    assert_described(&duplicate.to_problem());
    assert_described_in_openapi(&duplicate.to_problem(), "400");
}
