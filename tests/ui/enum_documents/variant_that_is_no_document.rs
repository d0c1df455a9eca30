use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes")]
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
}

#[derive(Serialize, Deserialize)]
struct Square {
    side: f64,
}

fn main() {}
