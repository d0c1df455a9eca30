use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "users", hooks)]
struct User {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(User))]
struct Shop;

fn main() {}
