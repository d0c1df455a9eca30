use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes")]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
}

// The enum has no variant for this model.
#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Square {
    #[serde(rename = "_id")]
    id: i64,
}

// The model has a collection of its own already.
#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape, collection = "circles")]
struct Ring {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
