#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
#[allow(unused_imports)]
use odm::{Database, prelude::*};

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Country, User, Person))]
struct Other;

fn main() {}
