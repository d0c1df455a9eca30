//! Models with ids that are composed of fields.
#![allow(dead_code)]

use odm::prelude::*;

#[derive(Clone, Serialize, Deserialize, Document)]
#[document(collection = "users", id = "users/{name}")]
pub struct User {
    #[serde(rename = "_id")]
    pub id: String,
    pub name: String,
    pub karma: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "payments", id = "{user}/payments/{#number:06}")]
pub struct Payment {
    #[serde(rename = "_id")]
    pub id: String,
    #[reference]
    pub user: Ref<User>,
    pub number: i64,
    pub amount: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "others")]
pub struct Other {
    #[serde(rename = "_id")]
    pub id: i64,
}

#[derive(Schema)]
#[schema(models(User, Payment))]
pub struct Bank;
pub type Db = odm::Database<Bank>;
