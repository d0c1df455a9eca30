#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
#[allow(unused_imports)]
use odm::{Database, prelude::*};

#[derive(Serialize, Deserialize, Embedded)]
struct Note {
    #[reference]
    by: Option<Ref<User>>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "things")]
struct Thing {
    #[serde(rename = "_id")]
    id: i64,
    #[embed(max = 3)]
    notes: Vec<Note>,
}

#[derive(Schema)]
#[schema(models(Thing))]
struct Things;

fn main() {}
