//! Invalid uses of `on_delete = clear`, which sets a copy to null when the source is deleted.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    notes: Option<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "lines")]
struct Line {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Host>,
    #[reference(on_delete = nullify)]
    backup: Option<Ref<Host>>,
    #[reference(on_delete = keep)]
    first: Ref<Host>,
    #[denormalize(from = host.name, on_delete = clear)]
    unsaid: Option<String>,
    #[denormalize(from = backup.name, on_delete = clear)]
    another: Option<String>,
    #[denormalize(from = first.name, on_delete = nullify)]
    unknown: Option<String>,
    #[denormalize(from = first.name, on_delete = clear, on_delete = keep)]
    twice: Option<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = keep)]
    host: Ref<Host>,
    #[denormalize(from = host.notes, on_delete = clear)]
    right: Option<String>,
    #[denormalize(from = host.name, on_delete = clear)]
    never_null: String,
}

fn main() {}
