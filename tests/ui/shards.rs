//! Models with a shard key.
#![allow(dead_code)]

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders", shard_key(customer, id), soft_delete)]
pub struct Order {
    #[serde(rename = "_id")]
    pub id: i64,
    pub customer: String,
    pub total: i64,
    pub region: Option<i64>,
    pub deleted_at: Option<DateTime>,
}

/// In a session with a scope, the scope and the id determine the shard.
#[derive(Serialize, Deserialize, Document)]
#[document(collection = "invoices", scope = tenant, shard_key(tenant, id))]
pub struct Invoice {
    #[serde(rename = "_id")]
    pub id: i64,
    pub tenant: String,
    pub total: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "notes")]
pub struct Note {
    #[serde(rename = "_id")]
    pub id: i64,
    #[reference]
    pub order: Ref<Order>,
}

#[derive(Schema)]
#[schema(models(Order, Invoice, Note))]
pub struct Shop;
pub type Db = odm::Database<Shop>;
