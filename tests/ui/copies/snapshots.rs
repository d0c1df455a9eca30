//! A snapshot has the type of the source field, and is read through a reference.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    price: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    product: Ref<Product>,
    #[reference]
    gift: Option<Ref<Product>>,
    #[snapshot(from = product.prize)]
    missing: i64,
    #[snapshot(from = product.price)]
    other_type: String,
    #[snapshot(from = gift.price)]
    must: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "carts")]
struct Cart {
    #[serde(rename = "_id")]
    id: i64,
    count: i64,
    #[snapshot(from = count.price)]
    no_reference: i64,
    #[snapshot(from = products.price)]
    nothing: i64,
}

fn main() {}
