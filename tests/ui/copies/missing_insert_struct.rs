//! A model with copies in an embedded struct needs an insert struct: `insert_struct`.
use std::collections::BTreeMap;

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Link {
    #[reference]
    part: Ref<Part>,
    #[denormalize(from = part.name)]
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 5)]
    parts: Vec<Link>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shelves", insert_struct)]
struct Shelf {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    parts: BTreeMap<String, Link>,
}

fn main() {}
