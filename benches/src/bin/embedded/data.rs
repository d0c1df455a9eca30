//! The documents of the benchmark, equal for all contenders.

use native_db::{ToKey, native_db};
use native_model::{Model, native_model};
use odm::prelude::*;
use odm_benches::tasks::{Person, Task};

use crate::contender::Result;

/// A product with a unique index and two plain indexes. A document has 270 bytes by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products")]
#[native_model(id = 1, version = 1)]
#[native_db]
pub(crate) struct Product {
    #[serde(rename = "_id")]
    #[primary_key]
    pub(crate) id: i64,
    #[index(unique)]
    #[secondary_key(unique)]
    pub(crate) sku: String,
    #[index]
    #[secondary_key]
    pub(crate) category: i64,
    #[index]
    #[secondary_key]
    pub(crate) price: i64,
    pub(crate) stock: i64,
    pub(crate) name: String,
    pub(crate) text: String,
    #[embed(max = 1_000)]
    pub(crate) reviews: Vec<Review>,
}

/// The maximum number of reviews of a product, as in the attribute of the field.
pub(crate) const MAX_REVIEWS: i64 = 1_000;

/// A review in a product, and a reply in a topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub(crate) struct Review {
    pub(crate) author: i64,
    pub(crate) text: String,
}

/// A part of a kit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
pub(crate) struct Part {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) price: i64,
}

/// A product with ten parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "kits")]
pub(crate) struct Kit {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    #[index]
    pub(crate) shelf: i64,
    pub(crate) text: String,
    #[reference]
    pub(crate) parts: Vec<Ref<Part>>,
}

/// The source of the copies in offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "suppliers")]
pub(crate) struct Supplier {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) city: String,
}

/// An offer with a copy of the city of the supplier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "offers")]
pub(crate) struct Offer {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    pub(crate) text: String,
    #[reference]
    pub(crate) supplier: Ref<Supplier>,
    #[denormalize(from = supplier.city)]
    pub(crate) city: String,
}

/// A topic with a long list of replies.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "topics")]
pub(crate) struct Topic {
    #[serde(rename = "_id")]
    pub(crate) id: i64,
    #[embed(overflow(after = 50, into = "extra_topics"))]
    pub(crate) replies: Overflow<Review>,
}

/// The number of replies in the document of a topic, as in the attribute of the field.
pub(crate) const RESIDENT_REPLIES: i64 = 50;

/// The schema of all models.
#[derive(Debug, Schema)]
#[schema(models(Part, Kit, Product, Person, Task, Supplier, Offer, Topic))]
pub(crate) struct Shop;

/// The number of products in a category.
pub(crate) const PRODUCTS_PER_CATEGORY: i64 = 20;
/// The number of kits on a shelf.
pub(crate) const KITS_PER_SHELF: i64 = 100;
/// The number of parts of a kit.
pub(crate) const PARTS_PER_KIT: i64 = 10;
/// The ids of the only supplier and of the only topic.
pub(crate) const SUPPLIER_ID: i64 = 1;
pub(crate) const TOPIC_ID: i64 = 1;

/// The city of the supplier before the first change.
pub(crate) const FIRST_CITY: &str = "Bonn";

/// The sizes of the collections, and a text that fills a product up to the size of a document.
#[derive(Debug, Clone)]
pub(crate) struct Catalog {
    /// The number of products.
    pub(crate) products: i64,
    /// The number of products in `update_many`, and the number of offers.
    pub(crate) many: i64,
    /// The number of kits, and the number of parts.
    pub(crate) kits: i64,
    text: String,
}

impl Catalog {
    pub(crate) fn new(documents: i64, document_bytes: usize) -> Result<Self> {
        let mut catalog = Self {
            products: documents,
            many: documents.min(10_000),
            kits: (documents / 10).clamp(1_000, 100_000),
            text: String::new(),
        };
        let unfilled_bytes = odm::bson::serialize_to_raw_document_buf(&catalog.product(0))?
            .as_bytes()
            .len();
        let sentence = "A text that no operation reads or changes. ";
        let missing_bytes = document_bytes.saturating_sub(unfilled_bytes);
        catalog.text = sentence.chars().cycle().take(missing_bytes).collect();
        Ok(catalog)
    }

    pub(crate) fn product(&self, id: i64) -> Product {
        Product {
            id,
            sku: sku(id),
            category: id / PRODUCTS_PER_CATEGORY,
            price: id * 7_919 % 100_000,
            stock: 10,
            // The order by name is not the order by id.
            name: format!("{:05} of the products", id * 7_919 % 100_003),
            text: self.text.clone(),
            reviews: Vec::new(),
        }
    }

    pub(crate) fn part(&self, id: i64) -> Part {
        Part {
            id,
            name: format!("part number {id}"),
            price: id % 100,
        }
    }

    pub(crate) fn kit(&self, id: i64) -> Kit {
        let part = |n: i64| Ref::new((id * 31 + n * 97) % self.kits);
        Kit {
            id,
            shelf: id / KITS_PER_SHELF,
            text: self.text.clone(),
            parts: (1..=PARTS_PER_KIT).map(part).collect(),
        }
    }

    /// Returns an offer with the first city of the supplier.
    pub(crate) fn offer(&self, id: i64) -> Offer {
        Offer {
            id,
            text: self.text.clone(),
            supplier: Ref::new(SUPPLIER_ID),
            city: FIRST_CITY.to_owned(),
        }
    }
}

pub(crate) fn sku(id: i64) -> String {
    format!("sku-{id:08}")
}

pub(crate) fn supplier() -> Supplier {
    Supplier {
        id: SUPPLIER_ID,
        name: "the supplier".to_owned(),
        city: FIRST_CITY.to_owned(),
    }
}

pub(crate) fn review(author: i64) -> Review {
    Review {
        author,
        text: format!("the opinion of author {author}, in one short sentence"),
    }
}

impl Product {
    /// Adds a review. A product with the maximum number of reviews is an error.
    pub(crate) fn push_review(&mut self, review: Review) -> Result<()> {
        if i64::try_from(self.reviews.len())? >= MAX_REVIEWS {
            return Err("the product has the maximum number of reviews".into());
        }
        self.reviews.push(review);
        Ok(())
    }
}
