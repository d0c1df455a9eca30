//! Models that support no delete rules, not even in embedded structs.
use odm::{Hooks, prelude::*};

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    #[reference(on_delete = cascade)]
    product: Ref<Product>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders", hooks)]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3)]
    lines: Vec<Line>,
}

impl Hooks for Order {
    type Schema = Shop;
}

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
    #[embed]
    line: Line,
}

#[derive(Schema)]
#[schema(models(Product, Order, Shape))]
struct Shop;

fn main() {}
