//! The settings of `timestamps`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", timestamps(deleted = gone))]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    gone: DateTime,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes", version = id)]
struct Note {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "memos", timestamps())]
struct Memo {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
