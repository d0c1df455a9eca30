use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "makers")]
struct Maker {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[index(partial = |_| Maker::fields().id().gt(3))]
    name: String,
}

fn main() {}
