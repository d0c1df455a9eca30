use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes", index(kind, area))]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    #[index(sparse)]
    area: Option<f64>,
}

fn main() {}
