//! Invalid values of the setting `soft_delete`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", soft_delete)]
struct NoField {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "b", soft_delete = removed)]
struct NoOption {
    #[serde(rename = "_id")]
    id: i64,
    removed: DateTime,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "c", soft_delete = removed)]
struct NoDate {
    #[serde(rename = "_id")]
    id: i64,
    removed: Option<bool>,
}

fn main() {}
