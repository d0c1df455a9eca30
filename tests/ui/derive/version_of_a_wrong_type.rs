//! A version must be a number, and a timestamp must be a date.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", version, timestamps(created = made))]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    version: String,
    made: i64,
}

fn main() {}
