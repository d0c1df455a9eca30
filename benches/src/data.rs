//! The documents of the benchmark: products with parts, equal for every contender.

use odm::prelude::*;
use odm_benches::tasks::{Person, Task};

/// An address, for the cost of an embedded struct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub(crate) struct Origin {
    pub(crate) city: String,
    pub(crate) country: String,
}

/// A part of a product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
pub(crate) struct Part {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) price: f64,
}

/// A product of about 300 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products")]
pub(crate) struct Product {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) name: String,
    #[index]
    pub(crate) category: i64,
    pub(crate) price: f64,
    pub(crate) description: String,
    #[embed]
    pub(crate) origin: Origin,
    #[reference]
    pub(crate) parts: Vec<Ref<Part>>,
}

/// The schema of all benchmark models.
#[derive(Debug, Schema)]
#[schema(models(Part, Product, Person, Task))]
pub(crate) struct Shop;

/// The number of products in a category.
pub(crate) const PRODUCTS_PER_CATEGORY: i64 = 100;
/// The number of parts.
const PART_COUNT: i64 = 1_000;

pub(crate) fn parts() -> Vec<Part> {
    (0..PART_COUNT)
        .map(|id| Part {
            id,
            name: format!("part number {id}"),
            price: 0.5,
        })
        .collect()
}

pub(crate) fn product(id: i64) -> Product {
    Product {
        id,
        name: format!("product number {id}"),
        category: id / PRODUCTS_PER_CATEGORY,
        price: 9.75,
        description: "A product with a description that is neither short nor long, as most are. "
            .repeat(2),
        origin: Origin {
            city: "Bonn".to_owned(),
            country: "de".to_owned(),
        },
        parts: (1..=10)
            .map(|n| Ref::new((id * 31 + n * 97) % PART_COUNT))
            .collect(),
    }
}
