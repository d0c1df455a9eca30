use chrono::{DateTime, Utc};
use odm::prelude::{Deserialize, Document, Embedded, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    at: DateTime<Utc>,
    left: Option<DateTime<Utc>>,
    #[embed(max = 3)]
    calls: Vec<DateTime<Utc>>,
    #[embed]
    rooms: BTreeMap<String, DateTime<Utc>>,
    #[embed]
    bill: Bill,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Bill {
    total: rust_decimal::Decimal,
}

fn main() {}
