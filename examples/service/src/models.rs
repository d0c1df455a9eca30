//! The models of the shop, and the schema.
//!
//! An insert takes a struct without the managed fields, such as `NewProduct`: the `id`, the `tenant` of the session, copies,
//! rollups, computed fields, the version and the times.
#![expect(missing_docs, reason = "the names explain the remaining fields")]

use std::str::FromStr;

use garde::Validate;
use odm::{Session, prelude::*};

use crate::ApiError;

/// The name of a tenant. Every document of the shop belongs to one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Embedded)]
pub struct Tenant(String);

impl FromStr for Tenant {
    type Err = ApiError;

    fn from_str(name: &str) -> Result<Self, ApiError> {
        let is_allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_');
        match (1..=40).contains(&name.len()) && name.chars().all(is_allowed) {
            true => Ok(Self(name.to_owned())),
            false => Err(ApiError::InvalidTenant),
        }
    }
}

/// A group of products.
#[derive(Debug, Clone, Serialize, Deserialize, Document, Validate)]
#[document(collection = "categories", id = auto, scope = tenant, validate, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Category {
    #[serde(rename = "_id", with = "odm::json")]
    pub id: ObjectId,
    pub tenant: Tenant,
    /// The name in URLs, unique within the tenant.
    #[index(unique)]
    #[garde(ascii, length(min = 1, max = 40))]
    pub slug: String,
    #[garde(length(chars, min = 1, max = 100))]
    pub name: String,
    /// The number of products.
    #[count(of = Product::category)]
    pub products: i64,
}

/// A product, with its stock and its ratings.
///
/// The page of products has an index for each order, and a further index for the products of a category by price.
#[derive(Debug, Clone, Serialize, Deserialize, Document, Validate)]
#[document(collection = "products", id = auto, scope = tenant, version, timestamps, validate)]
#[document(index(category, price, id), index(name, id), index(price, id), index(-created_at, -id))]
#[garde(allow_unvalidated)]
pub struct Product {
    #[serde(rename = "_id", with = "odm::json")]
    pub id: ObjectId,
    pub tenant: Tenant,
    /// The number in the catalog.
    #[index(unique)]
    #[garde(ascii, length(min = 1, max = 40))]
    pub sku: String,
    #[garde(length(chars, min = 1, max = 100))]
    pub name: String,
    /// The price in cents.
    #[garde(range(min = 0, max = 100_000_000))]
    pub price: i64,
    /// The number of pieces in the warehouse.
    pub stock: u32,
    /// The category. A category with products cannot be deleted.
    #[reference(on_delete = restrict)]
    #[serde(with = "odm::json")]
    pub category: Ref<Category>,
    /// The number of reviews.
    #[count(of = Review::product)]
    pub reviews: i64,
    /// The sum of the stars of all reviews.
    #[sum(of = Review::product, value = stars)]
    pub stars: i64,
    /// The number of writes, for `If-Match`.
    pub version: i64,
    /// The time of the insert.
    #[serde(with = "odm::json")]
    pub created_at: DateTime,
    /// The time of the last write.
    #[serde(with = "odm::json")]
    pub updated_at: DateTime,
}

/// A person who orders and reviews products.
#[derive(Debug, Clone, Serialize, Deserialize, Document, Validate)]
#[document(collection = "customers", id = auto, scope = tenant, validate, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Customer {
    #[serde(rename = "_id", with = "odm::json")]
    pub id: ObjectId,
    pub tenant: Tenant,
    #[index(unique)]
    #[garde(contains("@"), length(max = 200))]
    pub email: String,
    #[garde(length(chars, min = 1, max = 100))]
    pub name: String,
}

/// An opinion of a customer about a product. A customer reviews a product once.
#[derive(Debug, Clone, Serialize, Deserialize, Document, Validate)]
#[document(collection = "reviews", id = auto, scope = tenant, validate)]
#[document(timestamps(created = written))]
#[document(index(product, -written), index(product, author; unique))]
#[garde(allow_unvalidated)]
pub struct Review {
    #[serde(rename = "_id", with = "odm::json")]
    pub id: ObjectId,
    pub tenant: Tenant,
    /// The product. A delete of the product deletes its reviews.
    #[reference(on_delete = cascade)]
    #[serde(with = "odm::json")]
    pub product: Ref<Product>,
    #[reference]
    #[serde(with = "odm::json")]
    pub author: Ref<Customer>,
    /// A copy of the name of the customer, which follows a change of the name.
    #[denormalize(from = author.name)]
    pub author_name: String,
    /// One to five stars.
    #[garde(range(min = 1, max = 5))]
    pub stars: i64,
    #[garde(length(chars, max = 2_000))]
    pub text: String,
    /// The time of the review.
    #[serde(with = "odm::json")]
    pub written: DateTime,
}

/// An order of a customer.
#[derive(Debug, Clone, Serialize, Deserialize, Document, Validate)]
#[document(collection = "orders", id = auto, scope = tenant, insert_struct, validate)]
#[document(timestamps(created = placed), index(customer, -placed), deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Order {
    #[serde(rename = "_id", with = "odm::json")]
    pub id: ObjectId,
    pub tenant: Tenant,
    /// The customer. A customer with orders cannot be deleted.
    #[reference(on_delete = restrict)]
    #[serde(with = "odm::json")]
    pub customer: Ref<Customer>,
    /// The time of the order.
    #[serde(with = "odm::json")]
    pub placed: DateTime,
    /// The ordered products.
    #[embed(max = 100)]
    #[garde(length(min = 1), dive)]
    pub lines: Vec<OrderLine>,
    /// The sum of all lines in cents.
    #[computed(sum(lines.price * lines.quantity))]
    pub total: i64,
}

/// A product in an order. Later changes of the product do not change the line.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded, Validate)]
#[embedded(validate, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct OrderLine {
    /// The product. A product with orders cannot be deleted.
    #[reference(on_delete = restrict)]
    #[serde(with = "odm::json")]
    pub product: Ref<Product>,
    /// The name of the product at the time of the order.
    #[snapshot(from = product.name)]
    pub name: String,
    /// The price in cents at the time of the order.
    #[snapshot(from = product.price)]
    pub price: i64,
    /// The number of pieces.
    #[garde(range(min = 1, max = 1_000))]
    pub quantity: u32,
}

/// The schema: all models of the shop.
#[derive(Debug, Schema)]
#[schema(models(Category, Product, Customer, Review, Order))]
pub struct Shop;

/// A database of the shop.
pub type Db = odm::Database<Shop>;

/// The documents of one tenant.
pub type TenantSession = Session<Shop, Tenant>;
