//! A write through an enum would skip the hooks of a variant, and a write to a variant would skip the hooks of the enum.

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
