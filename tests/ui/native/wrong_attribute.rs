use chrono::{DateTime, Utc};
use odm::prelude::{Deserialize, Document, Serialize};

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(with = "chrono::serde::ts_seconds")]
    at: DateTime<Utc>,
    #[serde(with = "odm::native")]
    left: Option<DateTime<Utc>>,
}

fn main() {}
