//! A model that is inserted as itself has no insert struct with derives.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", insert_derive(PartialEq))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", version, insert_derive)]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    version: i64,
}

fn main() {}
