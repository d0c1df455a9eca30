//! Two indexes with the same key or name, and an index that duplicates the index on `_id`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", index(name, -name), index(id), index(id, size; name = "by_size"))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[index(name = "by_size")]
    size: i64,
}

fn main() {}
