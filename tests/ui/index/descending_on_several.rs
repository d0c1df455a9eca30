use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", index(name, count; descending))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    count: i64,
}

fn main() {}
