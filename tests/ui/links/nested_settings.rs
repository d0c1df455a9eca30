//! Invalid settings of references in embedded structs.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    orders: Vec<Ref<Product>>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    #[reference(inverse = orders)]
    two_way: Ref<Product>,
    #[reference(inverse_of = orders, max = 5)]
    inverse: Vec<Ref<Product>>,
    #[reference(on_delete = nullify)]
    one: Ref<Product>,
    #[reference(on_delete = cascade)]
    many: Vec<Ref<Product>>,
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(transparent)]
struct Text {
    #[reference(exists)]
    product: Ref<Product>,
}

fn main() {}
