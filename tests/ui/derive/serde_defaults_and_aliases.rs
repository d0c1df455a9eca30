//! serde attributes that accept documents which no filter finds.

use odm::prelude::*;

#[derive(Default, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
#[serde(default)]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "boxes")]
struct Crate {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(alias = "label")]
    name: String,
    #[embed(max = 5)]
    #[serde(default = "tags")]
    tags: Vec<String>,
}

fn tags() -> Vec<String> {
    vec!["new".into()]
}

#[derive(Serialize, Deserialize, Embedded)]
enum State {
    #[serde(alias = "fresh")]
    New,
    Used,
}

fn main() {}
