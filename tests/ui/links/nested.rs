//! Delete rules in embedded structs, in places that do not support rules.
use std::collections::BTreeMap;

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    orders: Vec<Ref<Order>>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    #[reference(on_delete = pull)]
    product: Ref<Product>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Table {
    #[embed]
    by_name: BTreeMap<String, Line>,
    #[embed(max = 3)]
    rows: Vec<Vec<Line>>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Tree {
    #[reference(exists)]
    product: Ref<Product>,
    #[embed(max = 3)]
    branches: Vec<Tree>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Wrapped(Line);

#[derive(Serialize, Deserialize, Embedded)]
#[serde(tag = "kind")]
enum Part {
    Of(Line),
    Many {
        #[embed(max = 3)]
        lines: Vec<Line>,
    },
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    only: Line,
    #[embed(max = 3)]
    lines: Vec<Line>,
    #[embed]
    maybe: Option<Line>,
}

fn main() {}
