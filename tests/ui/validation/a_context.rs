use odm::prelude::*;

struct Limits;

#[derive(Serialize, Deserialize, Document, garde::Validate)]
#[document(collection = "users", validate)]
#[garde(context(Limits))]
struct User {
    #[serde(rename = "_id")]
    #[garde(skip)]
    id: i64,
    #[garde(length(min = 1))]
    name: String,
}

fn main() {}
