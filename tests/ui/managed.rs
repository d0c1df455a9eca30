//! A model with managed fields.
#![allow(dead_code)]

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", version, timestamps(updated = changed))]
pub struct Task {
    #[serde(rename = "_id")]
    pub id: i64,
    pub text: String,
    pub version: i64,
    pub changed: DateTime,
}

#[derive(Schema)]
#[schema(models(Task))]
pub struct Office;
pub type Db = odm::Database<Office>;
