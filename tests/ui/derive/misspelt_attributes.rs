//! Misspelt names of attributes.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[documnet(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[refrence]
    maker: Ref<Part>,
    #[embeded(max = 3)]
    tags: Vec<String>,
}

fn main() {}
