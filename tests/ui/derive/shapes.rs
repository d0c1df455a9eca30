//! A document is a struct with named fields, or an enum of such structs.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "nothing")]
struct Nothing;

#[derive(Document)]
#[document(collection = "either")]
union Either {
    a: i64,
    b: f64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "never")]
#[serde(tag = "kind")]
enum Never {}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "skipped")]
#[serde(tag = "kind")]
enum Skipped {
    #[serde(skip)]
    Part(Part),
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", shared(size))]
#[serde(tag = "kind")]
enum Shared<'a> {
    Part(&'a str),
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

fn main() {}
