use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[index(expire_after_seconds = 4_000_000_000)]
    seen: DateTime,
}

fn main() {}
