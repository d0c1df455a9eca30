use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(skip_serializing, default)]
    name: String,
    #[serde(skip_deserializing)]
    note: String,
}

fn main() {}
