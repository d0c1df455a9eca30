//! An index can ignore the case of texts only.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users", index(mail, ignore_case(place)))]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    mail: String,
    #[index(ignore_case)]
    age: i64,
    #[embed]
    place: Place,
    #[index(ignore_case)]
    #[embed(max = 3)]
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Place {
    city: String,
}

fn main() {}
