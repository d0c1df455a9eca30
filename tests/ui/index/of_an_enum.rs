//! Indexes of an enum follow the rules of a struct: no duplicates, and no second index on `_id`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(
    collection = "shapes",
    shared(area: f64, name: String),
    index(area),
    index(area; unique),
    index(name; name = "names"),
    index(-name; name = "names"),
    index(name, name),
    index(id)
)]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    area: f64,
    name: String,
}

fn main() {}
