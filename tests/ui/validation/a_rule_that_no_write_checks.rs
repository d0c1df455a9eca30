use odm::prelude::*;

#[derive(Serialize, Deserialize, Document, garde::Validate)]
#[document(collection = "users")]
struct User {
    #[serde(rename = "_id")]
    #[garde(skip)]
    id: i64,
    #[garde(length(min = 1))]
    name: String,
}

fn main() {}
