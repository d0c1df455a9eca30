//! serde asks for more of a type parameter than it needs to.
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
