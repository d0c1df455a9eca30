use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
#[serde(transparent)]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
