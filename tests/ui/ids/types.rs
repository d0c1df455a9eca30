//! The part of an id must suit the type of the field.
use odm::prelude::*;

type Region = Option<i64>;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons", id = "{rate}/{active}/{born}/{region}")]
struct Person {
    #[serde(rename = "_id")]
    id: String,
    rate: f64,
    active: bool,
    born: DateTime,
    region: Region,
}

#[derive(Clone, Serialize, Deserialize, Embedded)]
struct PartId(String);

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: PartId,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "copies", id = "{part}/{#name}")]
struct Copy {
    #[serde(rename = "_id")]
    id: String,
    #[reference]
    part: Ref<Part>,
    name: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "rooms", id = "{house:03}/{room}")]
struct Room {
    #[serde(rename = "_id")]
    id: String,
    house: String,
    room: i32,
}

fn main() {}
