//! Types that serde stores in another form need `odm::native`, and references are in a `Vec`.
use std::{collections::BTreeMap, time::Duration};

use odm::prelude::{Deserialize, Document, Ref, Serialize};

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "rooms")]
struct Room {
    #[serde(rename = "_id")]
    id: uuid::Uuid,
    cleaned: chrono::NaiveDate,
    break_time: Duration,
    #[embed]
    nights: BTreeMap<u16, i64>,
    size: [f64; 2],
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "halls")]
struct Hall {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    rooms: [Ref<Room>; 2],
}

fn main() {}
