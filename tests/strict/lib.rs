//! A crate of a strict user: derived code must pass every lint that the crate denies.

#![deny(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    private_interfaces,
    private_bounds,
    non_local_definitions,
    unused_qualifications,
    single_use_lifetimes,
    unused_lifetimes,
    dead_code,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]

use std::collections::{BTreeMap, HashMap};

use odm::prelude::*;

/// A maker of parts.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "makers", index(name; unique), index(address.city, -founded))]
pub struct Maker {
    /// The id.
    #[serde(rename = "_id")]
    pub id: MakerId,
    /// The name of the maker.
    pub name: String,
    /// The date of the foundation.
    pub founded: DateTime,
    /// The address of the maker.
    #[embed]
    pub address: Address,
    #[index(expire_after_seconds = 60, sparse)]
    closed: Option<DateTime>,
    /// The number of parts made.
    pub made: i64,
    /// The number of returned parts.
    pub returned: Option<i32>,
    /// The number of parts that customers keep.
    #[computed(made - returned)]
    pub kept: i64,
}

impl Maker {
    /// Returns whether the maker is closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed.is_some()
    }
}

/// The fields of a maker that a client may change.
#[derive(Debug, Clone, Patch)]
#[patch(of = Maker)]
pub struct MakerPatch {
    /// The new name.
    pub name: Option<String>,
    closed: Option<DateTime>,
    /// The new address.
    #[patch(nested)]
    pub address: Option<AddressPatch>,
}

/// The id of a maker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Embedded)]
pub struct MakerId(String);

/// A postal address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Embedded)]
pub struct Address {
    /// The street.
    pub street: String,
    /// The city.
    pub city: String,
}

/// The fields of an address that a client may change.
#[derive(Debug, Clone, Patch)]
#[patch(of = Address)]
pub struct AddressPatch {
    /// The new city.
    pub city: Option<String>,
}

/// The process that makes a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Embedded)]
pub enum Process {
    /// In a mould.
    Cast,
    /// With a hammer.
    Forged,
}

/// The packing of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Embedded)]
#[serde(tag = "kind")]
pub enum Packing {
    /// In a box.
    Box {
        /// The width of the box.
        width: i64,
        /// The label of the box.
        r#type: String,
    },
    /// Without packing.
    Loose,
    /// Packed with the parts of an address.
    With(Address),
}

/// A part.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "parts", shard_key(r#type, process))]
#[serde(bound = "")]
pub struct Part<T: Embedded> {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// The kind.
    pub r#type: String,
    /// The process that makes the part.
    pub process: Process,
    /// The makers of the part.
    #[reference]
    pub makers: Vec<Ref<Maker>>,
    /// The layers of the part.
    #[embed(max = 10)]
    pub layers: Vec<T>,
    /// The packing of the part.
    #[embed]
    pub packing: Packing,
    /// The price in each country.
    #[embed]
    pub prices: BTreeMap<String, i64>,
    /// Further notes by topic.
    #[embed]
    pub more: HashMap<String, Note>,
}

/// A note with nested notes.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Note {
    /// The text.
    pub text: String,
    /// The nested notes.
    #[embed(max = 10)]
    pub notes: Vec<Self>,
    pub(crate) seen: bool,
}

impl Note {
    /// Returns whether a reader has seen the note.
    #[must_use]
    pub const fn seen(&self) -> bool {
        self.seen
    }
}

/// The name of a maker.
#[derive(Debug, Clone, Deserialize, Projection)]
#[projection(of = Maker)]
pub struct MakerName {
    /// The name of the maker.
    pub name: String,
}

/// A customer of a shop.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "customers", id = "{shop}/{#number:04}", timestamps(created = since))]
pub struct Customer {
    /// The id.
    #[serde(rename = "_id")]
    pub id: String,
    /// The shop of the customer.
    pub shop: String,
    /// The number of the customer in the shop.
    pub number: i64,
    /// The start of the customer relation.
    pub since: DateTime,
    /// The name of the customer.
    pub name: String,
    /// The orders of the customer.
    #[reference(inverse_of = customer, max = 100)]
    pub orders: Vec<Ref<Order>>,
    /// The number of open orders.
    #[count(of = Order::customer, when(is_open = true))]
    pub open: i64,
    /// The sum of all prices.
    #[sum(of = Order::customer, value = price)]
    pub spent: i64,
    /// The three orders with the highest prices.
    #[latest(3, of = Order::customer, by = price)]
    pub largest: Vec<Bought>,
    /// The products that the customer has viewed.
    #[embed(overflow(after = 50, into = "more_looks", latest_by = at))]
    pub looks: Overflow<Look>,
}

/// The fields of an order that the customer stores.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
#[embedded(of = Order)]
pub struct Bought {
    /// The price of the order.
    pub price: i64,
}

/// A view of a product.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Look {
    /// The time of the event.
    pub at: DateTime,
    /// The product.
    pub what: String,
}

/// An order.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(
    collection = "orders",
    version,
    timestamps,
    soft_delete,
    hooks,
    insert_struct
)]
pub struct Order {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// The customer of the order.
    #[reference(inverse = orders)]
    pub customer: Ref<Customer>,
    /// The name of the customer.
    #[denormalize(from = customer.name)]
    pub customer_name: String,
    /// The lines of the order.
    #[embed(max = 20)]
    pub lines: Vec<OrderLine>,
    /// The price of the order.
    pub price: i64,
    /// Whether the order is open.
    pub is_open: bool,
    /// The version of the document.
    pub version: i64,
    /// The time of the insert.
    pub created_at: DateTime,
    /// The time of the last write.
    pub updated_at: DateTime,
    /// The time of the soft delete.
    pub deleted_at: Option<DateTime>,
}

impl odm::Hooks for Order {
    type Schema = Shop;
}

/// A line of an order.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct OrderLine {
    /// The maker of the ordered part.
    #[reference(on_delete = restrict)]
    pub maker: Ref<Maker>,
    /// The name of the maker at the time of the order.
    #[snapshot(from = maker.name, origin)]
    pub maker_name: String,
    /// The number of parts.
    #[snapshot]
    pub count: i64,
}

/// A message of a tenant.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "messages", scope = tenant, index(tenant, text))]
pub struct Message {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// The tenant of the message.
    pub tenant: i64,
    /// The text.
    pub text: String,
}

/// An event.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "events", shared(at: DateTime), index(at))]
#[serde(tag = "kind")]
pub enum Event {
    /// An arrival.
    Came(Came),
    /// A departure.
    Left(Left),
}

/// An arrival.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(variant_of = Event)]
pub struct Came {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// The time of the event.
    pub at: DateTime,
    /// The place that the visitor came from.
    #[index]
    pub from: String,
}

/// A departure.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(variant_of = Event)]
pub struct Left {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// The time of the event.
    pub at: DateTime,
}

/// The shop.
#[derive(Debug, Clone, Copy, Schema)]
#[schema(models(Maker, Part<Address>, Customer, Order, Message, Event))]
pub struct Shop;

/// A model in a function.
///
/// # Errors
///
/// Errors of the backend.
pub async fn count() -> odm::Result<u64> {
    #[derive(Serialize, Deserialize, Document)]
    #[document(collection = "visits")]
    struct Visit {
        #[serde(rename = "_id")]
        id: i64,
    }
    #[derive(Schema)]
    #[schema(models(Visit))]
    struct Visits;

    let db = odm::Database::<Visits>::open("memory:").await?;
    db.insert(Visit { id: 1 }).await?;
    db.find::<Visit>().filter(|v| v.id().gte(1)).count().await
}
