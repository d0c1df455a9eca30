//! A delete rule in a generic struct: only the schema knows the place of the reference.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    #[reference(exists)]
    product: Ref<Product>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order<L: Embedded> {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3)]
    #[serde(bound = "")]
    rows: Vec<Vec<L>>,
}

#[derive(Schema)]
#[schema(models(Product, Order<Line>))]
struct Shop;

fn main() {}
