//! A managed field must be a field of the model.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", version, timestamps(updated = changed))]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes", timestamps)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
    created_at: DateTime,
}

fn main() {}
