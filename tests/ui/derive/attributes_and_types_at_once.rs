//! Errors in attributes do not hide errors in types.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts", index(nmae))]
struct Part {
    #[serde(rename = "_id")]
    id: f64,
    name: String,
    #[embed(maximum = 3)]
    tags: Vec<String>,
    size: Size,
    #[reference]
    maker: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Size {
    #[embed(unbound)]
    sides: Vec<i64>,
    unit: Unit,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Unit {
    name: String,
}

fn main() {}
