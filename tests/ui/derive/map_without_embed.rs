use odm::prelude::*;

use std::collections::BTreeMap;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    sizes: BTreeMap<String, i64>,
}

fn main() {}
