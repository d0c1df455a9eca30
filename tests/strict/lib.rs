//! A user's crate that denies what a strict user denies: derived code passes all of it.

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
    /// What it is called.
    pub name: String,
    /// When it began.
    pub founded: DateTime,
    /// Where it is.
    #[embed]
    pub address: Address,
    #[index(expire_after_seconds = 60, sparse)]
    closed: Option<DateTime>,
    /// How many parts it has made.
    pub made: i64,
    /// How many of them came back.
    pub returned: Option<i32>,
    /// How many are with somebody.
    #[computed(made - returned)]
    pub kept: i64,
}

impl Maker {
    /// Whether it is closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed.is_some()
    }
}

/// The id of a maker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Embedded)]
pub struct MakerId(String);

/// Where somebody is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Embedded)]
pub struct Address {
    /// The street.
    pub street: String,
    /// The city.
    pub city: String,
}

/// How a part is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Embedded)]
pub enum Process {
    /// In a mould.
    Cast,
    /// With a hammer.
    Forged,
}

/// What a part is shipped in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Embedded)]
#[serde(tag = "kind")]
pub enum Packing {
    /// In a box.
    Box {
        /// How wide it is.
        width: i64,
        /// What is written on it.
        r#type: String,
    },
    /// On its own.
    Loose,
    /// With others.
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
    /// How it is made.
    pub process: Process,
    /// Who makes it.
    #[reference]
    pub makers: Vec<Ref<Maker>>,
    /// What it is made of.
    #[embed(max = 10)]
    pub layers: Vec<T>,
    /// What it is shipped in.
    #[embed]
    pub packing: Packing,
    /// What it costs, by country.
    #[embed]
    pub prices: BTreeMap<String, i64>,
    /// What else is known.
    #[embed]
    pub more: HashMap<String, Note>,
}

/// A note, with notes on it.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Note {
    /// What it says.
    pub text: String,
    /// Notes on it.
    #[embed(max = 10)]
    pub notes: Vec<Self>,
    pub(crate) seen: bool,
}

impl Note {
    /// Whether somebody read it.
    #[must_use]
    pub const fn seen(&self) -> bool {
        self.seen
    }
}

/// The name of a maker.
#[derive(Debug, Clone, Deserialize, Projection)]
#[projection(of = Maker)]
pub struct MakerName {
    /// What it is called.
    pub name: String,
}

/// Somebody who buys.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "customers", id = "{shop}/{#number:04}", timestamps(created = since))]
pub struct Customer {
    /// The id.
    #[serde(rename = "_id")]
    pub id: String,
    /// Where they buy.
    pub shop: String,
    /// Their number there.
    pub number: i64,
    /// Since when they are one.
    pub since: DateTime,
    /// What they are called.
    pub name: String,
    /// What they have ordered.
    #[reference(inverse_of = customer, max = 100)]
    pub orders: Vec<Ref<Order>>,
    /// How many of these are open.
    #[count(of = Order::customer, when(is_open = true))]
    pub open: i64,
    /// What all of it costs.
    #[sum(of = Order::customer, value = price)]
    pub spent: i64,
    /// The last ones.
    #[latest(3, of = Order::customer, by = price)]
    pub largest: Vec<Bought>,
    /// What they have looked at.
    #[embed(overflow(after = 50, into = "more_looks", latest_by = at))]
    pub looks: Overflow<Look>,
}

/// What is kept of an order where its customer is.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
#[embedded(of = Order)]
pub struct Bought {
    /// What it costs.
    pub price: i64,
}

/// A look at something.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Look {
    /// When.
    pub at: DateTime,
    /// At what.
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
    companion
)]
pub struct Order {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// Who ordered it.
    #[reference(inverse = orders)]
    pub customer: Ref<Customer>,
    /// What they are called.
    #[denormalize(from = customer.name)]
    pub customer_name: String,
    /// Its lines.
    #[embed(max = 20)]
    pub lines: Vec<OrderLine>,
    /// What it costs.
    pub price: i64,
    /// Whether it is open.
    pub is_open: bool,
    /// How often it was written.
    pub version: i64,
    /// When it was made.
    pub created_at: DateTime,
    /// When it was written last.
    pub updated_at: DateTime,
    /// When it was deleted.
    pub deleted_at: Option<DateTime>,
}

impl odm::Hooks for Order {
    type Schema = Shop;
}

/// A line of an order.
#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct OrderLine {
    /// What is ordered.
    #[reference(on_delete = restrict)]
    pub maker: Ref<Maker>,
    /// What it was called then.
    #[snapshot(from = maker.name, origin)]
    pub maker_name: String,
    /// How many.
    #[snapshot]
    pub count: i64,
}

/// Something that was said, of a tenant.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "messages", scope = tenant, index(tenant, text))]
pub struct Message {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// Whose it is.
    pub tenant: i64,
    /// What it says.
    pub text: String,
}

/// An event.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "events", shared(at: DateTime), index(at))]
#[serde(tag = "kind")]
pub enum Event {
    /// Somebody came.
    Came(Came),
    /// Somebody left.
    Left(Left),
}

/// Somebody came.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(variant_of = Event)]
pub struct Came {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// When.
    pub at: DateTime,
    /// From where.
    #[index]
    pub from: String,
}

/// Somebody left.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(variant_of = Event)]
pub struct Left {
    /// The id.
    #[serde(rename = "_id")]
    pub id: i64,
    /// When.
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
/// Those of the backend.
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
