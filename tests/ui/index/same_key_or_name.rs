//! A key that is in an index already, a name that another index has, and an index that there always is.
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
