//! A module of the application with the name `json` is not `odm::json`.

use odm::prelude::*;

mod json {
    pub fn serialize<S: serde::Serializer>(_: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("five")
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(_: D) -> Result<i64, D::Error> {
        Ok(5)
    }
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tickets")]
struct Ticket {
    #[serde(rename = "_id", with = "odm::json")]
    id: ObjectId,
    #[serde(with = "crate::json")]
    price: i64,
}

fn main() {}
