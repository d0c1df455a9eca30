//! `odm::json` is for ids and dates, and an option needs `default`.

use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "seats")]
struct Seat {
    #[serde(rename = "_id", with = "odm::json")]
    id: ObjectId,
    #[serde(with = "odm::json")]
    until: Option<DateTime>,
    #[serde(with = "odm::json")]
    free: bool,
}

fn main() {}
