//! A newtype cannot be a timestamp, and neither can a date without a time.
use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Moment(DateTime);

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "tasks", timestamps(created = made, updated = changed), soft_delete = gone)]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    made: Moment,
    #[serde(with = "odm::native")]
    changed: chrono::NaiveDate,
    gone: Option<Moment>,
}

fn main() {}
