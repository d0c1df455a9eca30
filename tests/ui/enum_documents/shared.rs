use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes", shared(name: String, area: f64, side: i64, color: String))]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
    Square(Square),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    area: f64,
    color: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Square {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    area: i64,
    side: i64,
    color: String,
}

fn main() {}
