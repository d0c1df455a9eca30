use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 0)]
    names: Vec<String>,
    #[embed(max = "3")]
    tags: Vec<String>,
}

fn main() {}
