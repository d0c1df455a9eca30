//! An index can ignore the case of a text of the document that updates set.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users", index(id, mail; ignore_case), index(ignore_case(place.city)))]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    mail: String,
    #[index(ignore_case, expire_after_seconds = 60)]
    until: DateTime,
    #[embed]
    place: Place,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "members", index(number, -ignore_case(name)))]
struct Member {
    #[index(ignore_case)]
    #[serde(rename = "_id")]
    id: String,
    number: i64,
    name: String,
    #[reference]
    user: Ref<User>,
    #[index(ignore_case)]
    #[denormalize(from = user.mail)]
    mail: String,
}

#[derive(Serialize, Deserialize, Embedded)]
struct Place {
    city: String,
}

fn main() {}
