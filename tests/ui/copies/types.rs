//! A copy has the type of the source field.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "hosts", version)]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[embed(max = 5)]
    ports: Vec<Port>,
    version: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Port {
    number: i32,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "lines")]
struct Line {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Host>,
    #[reference]
    backup: Option<Ref<Host>>,
    #[denormalize(from = host.name)]
    number: i64,
    #[denormalize(from = backup.name)]
    must: String,
    #[denormalize(from = host.nmae)]
    typo: String,
    #[denormalize(from = host.ports.number)]
    inside: i32,
    #[denormalize(from = host.version)]
    version: i64,
}

fn main() {}
