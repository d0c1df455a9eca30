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

#[derive(Schema)]
#[schema(models(Shape, Circle))]
struct Both;

#[derive(Schema)]
#[schema(models(Circle))]
struct WithoutTheEnum;

fn main() {}
