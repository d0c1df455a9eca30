//! A cycle of copies over three models is reported once, for its first model in the schema, and not for `Guest`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "guests")]
struct Guest {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    host: Ref<Person>,
    #[denormalize(from = host.town)]
    town: String,
}

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
    street: Ref<Street>,
    #[denormalize(from = street.city)]
    town: String,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "streets")]
struct Street {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3)]
    sights: Vec<String>,
    #[reference]
    mayor: Ref<Person>,
    #[denormalize(from = mayor.town)]
    city: String,
}

#[derive(Schema)]
#[schema(models(Guest, Street, House, Person))]
struct Town;

fn main() {}
