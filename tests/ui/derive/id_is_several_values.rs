use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    #[embed(max = 3)]
    id: Vec<i64>,
}

fn main() {}
