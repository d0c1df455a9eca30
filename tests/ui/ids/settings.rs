//! Invalid values of the setting `id`.
use std::collections::BTreeMap;

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id)]
struct NothingSaid {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "users/{nmae}")]
struct Missing {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "users/{#number}")]
struct MissingNumber {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "users")]
struct NoFields {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "{first}{last}")]
struct Adjacent {
    #[serde(rename = "_id")]
    id: String,
    first: String,
    last: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "user-{name}")]
struct NoSlash {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "users/{name")]
struct Unclosed {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "/users/{name}")]
struct SlashFirst {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "100%/{name}")]
struct Percent {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "users/{#}")]
struct Unnamed {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "users/{number:6}")]
struct NoZero {
    #[serde(rename = "_id")]
    id: String,
    number: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "{#a}/{#b}")]
struct TwoNumbers {
    #[serde(rename = "_id")]
    id: String,
    a: i64,
    b: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "{name}/{name}")]
struct Twice {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "{name}", id = "{name}")]
struct SaidTwice {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "{id}/x")]
struct OfItself {
    #[serde(rename = "_id")]
    id: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "{parent}/{name}")]
struct Folder {
    #[serde(rename = "_id")]
    id: String,
    #[reference]
    parent: Ref<Folder>,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "users/{name}")]
struct NoText {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "{tags}/{prices}/{region}/{like}/{old}/{updated_at}", timestamps)]
struct NoSingleValues {
    #[serde(rename = "_id")]
    id: String,
    #[embed(max = 3)]
    tags: Vec<String>,
    #[embed]
    prices: BTreeMap<String, i64>,
    region: Option<i64>,
    #[reference(max = 3)]
    like: Vec<Ref<Missing>>,
    #[serde(default)]
    old: i64,
    created_at: DateTime,
    updated_at: DateTime,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "a", id = "batches/{name}")]
#[serde(bound = "")]
struct Batch<T: Embedded> {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    #[embed(max = 3)]
    items: Vec<T>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "shapes", id = "{name}")]
#[serde(tag = "kind")]
enum Shape {
    Circle(Circle),
}

#[derive(Serialize, Deserialize, Document)]
#[document(variant_of = Shape, id = "{name}")]
struct Circle {
    #[serde(rename = "_id")]
    id: String,
    name: String,
}

fn main() {}
