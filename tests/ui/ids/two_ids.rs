//! A document has one `_id`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "_id")]
    number: i64,
}

fn main() {}
