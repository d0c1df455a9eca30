use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", index(name))]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[index]
    #[index(unique)]
    name: String,
}

fn main() {}
