use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

fn main() {}
