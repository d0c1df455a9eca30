//! A set has each element once, and an array of a fixed length keeps its length.
use std::collections::{BTreeMap, BTreeSet};

use odm::prelude::*;

#[derive(Debug, Serialize, Deserialize, Document)]
#[document(collection = "rooms")]
struct Room {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 9)]
    tags: BTreeSet<String>,
    #[embed]
    size: [f64; 2],
    #[embed]
    #[serde(with = "odm::native")]
    nights: BTreeMap<u16, i64>,
}

#[derive(Schema)]
#[schema(models(Room))]
struct Hotel;

fn wrong(db: &odm::Database<Hotel>) {
    let _ = db.update::<Room>(1).push(|r| r.tags(), "sea");
    let _ = db.update::<Room>(1).pop_last(|r| r.tags());
    let _ = db.update::<Room>(1).set(|r| r.tags().at(0), "sea");
    let _ = db.update::<Room>(1).set(|r| r.tags().all(), "sea");
    let _ = db.update::<Room>(1).push(|r| r.size(), 2.5);
    let _ = db.update::<Room>(1).set(|r| r.size(), [1.0]);
    let _ = db.update::<Room>(1).inc(|r| r.nights().key("2027"), 1);
}

fn main() {}
