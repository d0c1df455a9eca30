use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "_odm.parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
