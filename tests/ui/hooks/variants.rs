//! What is written through an enum would go around the hooks of a variant, and the other way round.

use odm::prelude::*;

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "shapes", hooks)]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(variant_of = Shape, hooks, validate)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    radius: f64,
}

fn main() {}
