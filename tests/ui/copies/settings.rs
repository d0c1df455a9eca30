//! Invalid settings of copies and snapshots.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "lines")]
struct Line {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[reference]
    host: Ref<Host>,
    #[reference(max = 3)]
    others: Vec<Ref<Host>>,
    #[denormalize]
    nothing: String,
    #[denormalize(from = host)]
    whole: String,
    #[denormalize(from = hots.name)]
    typo: String,
    #[denormalize(from = others.name)]
    several: String,
    #[denormalize(from = text.name)]
    plain: String,
    #[denormalize(from = host.name, sync, background)]
    both: String,
    #[denormalize(from = host.name, later)]
    unknown: String,
    #[snapshot(of = host.name)]
    of: String,
    #[snapshot]
    #[denormalize(from = host.name)]
    twice: String,
    #[snapshot(origin)]
    origin_of_nothing: String,
    #[snapshot(from = host.name, origin = true)]
    origin_with_value: String,
    #[denormalize(from = host.name, origin)]
    follows: String,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Event {
    Seen {
        #[reference]
        host: Ref<Host>,
        #[denormalize(from = host.name)]
        name: String,
    },
}

fn main() {}
