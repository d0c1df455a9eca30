use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
#[allow(unreachable_patterns)]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[serde(rename = "name")]
    title: String,
}

fn main() {}
