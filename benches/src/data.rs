//! The documents: products with parts, the same for every contender.

use odm::prelude::*;

/// An address, for the weight of an embedded struct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub(crate) struct Origin {
    pub(crate) city: String,
    pub(crate) country: String,
}

/// What a product is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
pub(crate) struct Part {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) price: f64,
}

/// A product, of about 300 bytes.
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

/// Who has tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
pub(crate) struct Person {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    #[reference(inverse_of = owner, max = 100)]
    pub(crate) tasks: Vec<Ref<Task>>,
}

/// Listed by its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
pub(crate) struct Task {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    #[reference(inverse = tasks)]
    #[index]
    pub(crate) owner: Ref<Person>,
}

/// All of them.
#[derive(Debug, Schema)]
#[schema(models(Part, Product, Person, Task))]
pub(crate) struct Shop;

/// How many products a category has.
pub(crate) const IN_CATEGORY: i64 = 100;
/// How many parts there are.
const PARTS: i64 = 1_000;

/// How many people there are, with one task each.
pub(crate) const PERSONS: i64 = 20;

pub(crate) fn parts() -> Vec<Part> {
    (0..PARTS)
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
        category: id / IN_CATEGORY,
        price: 9.75,
        description: "A product with a description that is neither short nor long, as most are. "
            .repeat(2),
        origin: Origin {
            city: "Bonn".to_owned(),
            country: "de".to_owned(),
        },
        parts: (1..=10)
            .map(|n| Ref::new((id * 31 + n * 97) % PARTS))
            .collect(),
    }
}
