use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

fn main() {}
