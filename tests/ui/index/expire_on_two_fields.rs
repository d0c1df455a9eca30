use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", index(name, seen; expire_after_seconds = 60))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    seen: DateTime,
}

fn main() {}
