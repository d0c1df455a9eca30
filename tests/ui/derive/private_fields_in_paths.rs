//! Errors in attribute paths point at the field: the fields here are private, so the compiler shows the declarations.

use odm::prelude::*;

mod shop {
    use odm::prelude::*;

    #[derive(Serialize, Deserialize, Document)]
    #[document(collection = "products")]
    pub struct Product {
        #[serde(rename = "_id")]
        pub id: i64,
        name: String,
        price: i64,
    }

    #[derive(Serialize, Deserialize, Document)]
    #[document(collection = "lines")]
    pub struct Line {
        #[serde(rename = "_id")]
        pub id: i64,
        #[reference]
        basket: Ref<super::Basket>,
        #[reference]
        pub of: Ref<super::Basket>,
        amount: i64,
        at: DateTime,
    }

    #[derive(Serialize, Deserialize, Document)]
    #[document(collection = "owners")]
    pub struct Owner {
        #[serde(rename = "_id")]
        pub id: i64,
        #[reference(inverse_of = owner, max = 10)]
        baskets: Vec<Ref<super::Basket>>,
    }

    #[derive(Serialize, Deserialize, Embedded)]
    pub struct Place {
        city: String,
    }
}

#[derive(Serialize, Deserialize, Embedded)]
#[embedded(of = shop::Line)]
struct Latest {
    amount: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "baskets", index(place.city))]
struct Basket {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    place: shop::Place,
    #[reference]
    product: Ref<shop::Product>,
    #[denormalize(from = product.name)]
    name: String,
    #[snapshot(from = product.price)]
    price: i64,
    #[reference(inverse = baskets)]
    owner: Ref<shop::Owner>,
    #[count(of = shop::Line::basket)]
    lines: i64,
    #[sum(of = shop::Line::of, value = amount)]
    amount: i64,
    #[latest(5, of = shop::Line::of, by = at)]
    latest: Vec<Latest>,
}

fn main() {}
