use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users", validate)]
struct User {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
}

fn main() {}
