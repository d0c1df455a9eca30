use chrono::{DateTime, Utc};
use odm::prelude::{Deserialize, Document, Serialize};

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "visits", timestamps(created = made))]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[serde(with = "odm::native")]
    name: String,
    #[serde(with = "odm::native")]
    #[embed(max = 3)]
    names: Vec<String>,
    #[serde(with = "odm::native")]
    made: DateTime<Utc>,
    #[serde(with = "odm::native")]
    here: DateTime<chrono::Local>,
}

fn main() {}
