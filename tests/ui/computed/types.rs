//! A computed field has the type of its operands, which must be fields that the application writes.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "hosts")]
struct Host {
    #[serde(rename = "_id")]
    id: i64,
    port: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "things", version)]
struct Thing {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    weight: f64,
    count: i32,
    #[embed]
    crates: Crates,
    #[embed(max = 5)]
    lines: Vec<Line>,
    #[reference]
    host: Ref<Host>,
    #[denormalize(from = host.port)]
    port: i64,
    version: i64,
    #[computed(count + name)]
    text: i64,
    #[computed(weight * count)]
    not_whole: i64,
    #[computed(count * 0.5)]
    half: i64,
    #[computed(sum(count, count))]
    small: i32,
    #[computed(len(count))]
    length: i64,
    #[computed(port + 1)]
    copied: i64,
    #[computed(version + 1)]
    filled: i64,
    #[computed(sum(lines.prize))]
    typo: i64,
    #[computed(sum(lines.parts.count))]
    deep: i64,
    #[computed(crates.lines.price)]
    inside: i64,
    #[computed(count.first)]
    no_struct: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Line {
    price: i64,
    #[embed(max = 2)]
    parts: Vec<Part>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Part {
    count: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Crates {
    #[embed(max = 2)]
    lines: Vec<Line>,
}

fn main() {}
