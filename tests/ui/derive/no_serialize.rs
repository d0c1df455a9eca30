use odm::prelude::*;

#[derive(Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Embedded)]
struct Size {
    width: i64,
}

fn main() {}
