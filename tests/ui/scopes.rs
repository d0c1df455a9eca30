//! Models with a scope, and one with a soft delete.
#![allow(dead_code)]

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct TenantId(pub String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Region(pub String);

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "invoices", scope = tenant, index(tenant, number; unique))]
pub struct Invoice {
    #[serde(rename = "_id")]
    pub id: i64,
    pub tenant: TenantId,
    pub number: i64,
    #[reference]
    pub product: Option<Ref<Product>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "products")]
pub struct Product {
    #[serde(rename = "_id")]
    pub id: i64,
    #[reference]
    pub last: Option<Ref<Invoice>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "posts", soft_delete)]
pub struct Post {
    #[serde(rename = "_id")]
    pub id: i64,
    pub title: String,
    pub deleted_at: Option<DateTime>,
}

#[derive(Schema)]
#[schema(models(Invoice, Product, Post))]
pub struct Shop;
pub type Db = odm::Database<Shop>;
