use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes", shared(name: String))]
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
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Square {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(rename = "title")]
    name: String,
    kind: String,
}

fn main() {}
