use odm::{Hooks, prelude::*};

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    id: i64,
}

impl Hooks for User {
    type Schema = Shop;
}

#[derive(Schema)]
#[schema(models(User))]
struct Shop;

fn main() {}
