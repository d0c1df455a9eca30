//! The models of the examples: a small shop.

use odm::prelude::*;

/// A group of products.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "categories")]
pub struct Category {
    #[serde(rename = "_id")]
    pub id: ObjectId,
    /// The name in URLs.
    #[index(unique)]
    pub slug: String,
    pub name: String,
    /// The number of products.
    #[count(of = Product::category)]
    pub products: i64,
}

/// A product, with its stock and its ratings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "products", index(category, price), version, timestamps)]
pub struct Product {
    #[serde(rename = "_id")]
    pub id: ObjectId,
    /// The number in the catalog.
    #[index(unique)]
    pub sku: String,
    pub name: String,
    /// The price in cents.
    pub price: i64,
    /// The number of pieces in the warehouse.
    pub stock: u32,
    #[embed(max = 20)]
    pub tags: Vec<String>,
    #[reference(on_delete = restrict)]
    pub category: Ref<Category>,
    /// The number of reviews.
    #[count(of = Review::product)]
    pub reviews: i64,
    /// The sum of all stars.
    #[sum(of = Review::product, value = stars)]
    pub stars: i64,
    pub version: i64,
    pub created_at: DateTime,
    pub updated_at: DateTime,
}

/// A person who orders and reviews products.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "customers")]
pub struct Customer {
    #[serde(rename = "_id")]
    pub id: ObjectId,
    #[index(unique)]
    pub email: String,
    pub name: String,
    #[embed]
    pub address: Option<Address>,
}

/// A postal address, stored inside of another document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Address {
    pub street: String,
    pub city: String,
}

/// An opinion of a customer about a product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "reviews", index(product, -written))]
pub struct Review {
    #[serde(rename = "_id")]
    pub id: ObjectId,
    #[reference(on_delete = cascade)]
    pub product: Ref<Product>,
    #[reference]
    pub author: Ref<Customer>,
    /// A copy of the name of the customer, kept up to date.
    #[denormalize(from = author.name)]
    pub author_name: String,
    /// One to five stars.
    pub stars: i64,
    pub text: String,
    pub written: DateTime,
}

/// An order of a customer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "orders", index(customer, -placed), insert_struct)]
pub struct Order {
    #[serde(rename = "_id")]
    pub id: ObjectId,
    #[reference(on_delete = restrict)]
    pub customer: Ref<Customer>,
    pub placed: DateTime,
    #[embed(max = 100)]
    pub lines: Vec<OrderLine>,
    /// The sum of all lines in cents.
    #[computed(sum(lines.price * lines.quantity))]
    pub total: i64,
}

/// A product in an order, with the price at the time of the order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct OrderLine {
    #[reference(on_delete = restrict)]
    pub product: Ref<Product>,
    /// The price of the product when the order was placed. Later changes of the product do not change the order.
    #[snapshot(from = product.price)]
    pub price: i64,
    pub quantity: i64,
}

/// The schema: all models of the shop.
#[derive(Schema)]
#[schema(models(Category, Product, Customer, Review, Order))]
pub struct Shop;

/// A database of the shop.
pub type Db = odm::Database<Shop>;
