use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes", version)]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
    Square(Square),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape, version)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    version: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Square {
    #[serde(rename = "_id")]
    id: i64,
    version: i64,
}

fn main() {}
