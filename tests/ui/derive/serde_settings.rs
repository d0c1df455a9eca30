//! serde settings that a document cannot support.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "")]
    empty: i64,
    #[serde(rename = "_odm")]
    bookkeeping: i64,
    #[serde(rename = "a\0b")]
    null: i64,
    #[serde(serialize_with = "text")]
    written: i64,
    #[serde(deserialize_with = "text")]
    read: i64,
    #[serde(with = "odm::native")]
    when: Option<chrono::DateTime<chrono::Utc>>,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Kind {
    #[serde(with = "text")]
    With(i64),
    #[serde(skip_serializing)]
    Written(i64),
    Skipped(#[serde(skip)] i64, i64),
}

fn main() {}
