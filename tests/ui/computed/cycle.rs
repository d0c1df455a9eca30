//! Computed fields cannot depend on each other in a cycle.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "rooms")]
struct Room {
    #[serde(rename = "_id")]
    id: i64,
    width: i64,
    #[computed(width * height)]
    area: i64,
    #[computed(area - depth)]
    height: i64,
    #[computed(width)]
    depth: i64,
}

fn main() {}
