use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", index(name, unique = true))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

fn main() {}
