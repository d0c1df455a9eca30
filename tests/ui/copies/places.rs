//! Fields and models that cannot have copies.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[denormalize(from = next.port)]
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    next: Ref<Host>,
    port: i64,
    #[denormalize(from = next.best)]
    #[reference(exists)]
    best: Ref<Host>,
    #[denormalize(from = next.port, on_delete = clear)]
    plain: Option<i64>,
    #[reference(on_delete = cascade)]
    kept: Ref<Host>,
    #[denormalize(from = kept.port, on_delete = clear)]
    cleared: Option<i64>,
    #[denormalize()]
    nothing: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes")]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape)]
struct Circle {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.port)]
    copied: i64,
    #[count(of = Host::next)]
    counted: i64,
    #[computed(id + 1)]
    computed: i64,
    #[reference(exists)]
    ruled: Ref<Host>,
    #[embed(overflow(after = 3, into = "more"))]
    overflows: Overflow<i64>,
}

fn main() {}
