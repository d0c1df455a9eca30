//! serde adds stricter bounds on a type parameter than necessary.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "boxes")]
struct Boxed<T: Embedded> {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3)]
    inside: Vec<T>,
}

fn main() {}
