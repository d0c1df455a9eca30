//! Types that serde stores in another form need `odm::native`.
use std::{collections::BTreeMap, time::Duration};

use odm::prelude::{Deserialize, Document, Serialize};

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

fn main() {}
