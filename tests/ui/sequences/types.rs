//! A sequence number is an integer.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a")]
struct Texts {
    #[serde(rename = "_id")]
    id: i64,
    #[sequence]
    number: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "b")]
struct Options {
    #[serde(rename = "_id")]
    id: i64,
    #[sequence]
    number: Option<i64>,
}

fn main() {}
