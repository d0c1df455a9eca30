//! Two models cannot copy a field from each other.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    house: Ref<House>,
    #[denormalize(from = house.town)]
    town: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "houses")]
struct House {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    owner: Ref<Person>,
    #[denormalize(from = owner.town)]
    town: String,
}

#[derive(Schema)]
#[schema(models(Person, House))]
struct Town;

fn main() {}
