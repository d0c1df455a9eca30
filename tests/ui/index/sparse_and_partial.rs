use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[index(sparse, partial = |p| p.name().exists())]
    name: String,
}

fn main() {}
