use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes")]
#[serde(tag = "kind")]
enum Shape {
    Square {
        #[serde(rename = "_id")]
        id: i64,
        side: f64,
    },
    Point,
    #[serde(skip)]
    Nothing(Nothing),
    Circle(Circle),
    Disk(Circle),
}

struct Nothing;

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
