//! Invalid values of the setting `shard_key`.
use std::collections::BTreeMap;

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key)]
struct NoFields {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key())]
struct Empty {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key = id)]
struct Assigned {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(costumer, id))]
struct Missing {
    #[serde(rename = "_id")]
    id: i64,
    customer: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(customer, id, customer))]
struct Twice {
    #[serde(rename = "_id")]
    id: i64,
    customer: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(customer), shard_key(id))]
struct SaidTwice {
    #[serde(rename = "_id")]
    id: i64,
    customer: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(-customer, id))]
struct Descending {
    #[serde(rename = "_id")]
    id: i64,
    customer: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(hashed customer))]
struct HashedWithoutBrackets {
    #[serde(rename = "_id")]
    id: i64,
    customer: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(hashed(customer), hashed(id)))]
struct TwoHashed {
    #[serde(rename = "_id")]
    id: i64,
    customer: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Address {
    city: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(address.city))]
struct Inside {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    address: Address,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(address, tags, prices, region, like, old, rare))]
struct NoSingleValues {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    address: Address,
    #[embed(max = 3)]
    tags: Vec<String>,
    #[embed]
    prices: BTreeMap<String, i64>,
    region: Option<i64>,
    #[reference(max = 3)]
    like: Vec<Ref<NoSingleValues>>,
    #[serde(default)]
    old: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    rare: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", shard_key(revision, updated_at), version = revision, timestamps)]
struct Filled {
    #[serde(rename = "_id")]
    id: i64,
    revision: i64,
    created_at: DateTime,
    updated_at: DateTime,
}

#[derive(Serialize, Deserialize, Document)]
#[document(
    collection = "a",
    shard_key(customer, id),
    index(number, customer; unique),
    index(id, number; unique),
    index(customer, -id, number; unique),
    index(customer, id; sparse)
)]
struct Indexes {
    #[serde(rename = "_id")]
    id: i64,
    customer: String,
    #[index(unique)]
    number: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes", shard_key(id))]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape, shard_key(radius))]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    radius: i64,
}

fn main() {}
