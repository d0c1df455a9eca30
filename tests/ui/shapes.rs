//! The models for mistakes with enums as documents.
#![allow(dead_code, unused)]

pub use odm::prelude::*;

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "shapes", shared(area: f64))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Shape {
    Circle(Circle),
    Square(Square),
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
pub struct Circle {
    #[serde(rename = "_id")]
    pub id: i64,
    pub area: f64,
    pub radius: f64,
    #[reference]
    pub like: Ref<Circle>,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
pub struct Square {
    #[serde(rename = "_id")]
    pub id: i64,
    pub area: f64,
    pub side: f64,
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "events", version)]
#[serde(tag = "type")]
pub enum Event {
    Login(Login),
}

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(variant_of = Event, version)]
pub struct Login {
    #[serde(rename = "_id")]
    pub id: i64,
    pub version: i64,
}

#[derive(Schema)]
#[schema(models(Shape, Event))]
pub struct Drawing;
pub type Db = odm::Database<Drawing>;

#[derive(Schema)]
#[schema(models(Event))]
pub struct Log;
pub type Other = odm::Database<Log>;
