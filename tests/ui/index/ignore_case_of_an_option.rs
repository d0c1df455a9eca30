//! A unique index of an optional text leaves out documents without a text.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    #[index(unique, ignore_case)]
    nick: Option<String>,
}

fn main() {}
