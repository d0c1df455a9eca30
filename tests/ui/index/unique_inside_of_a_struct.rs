//! Invalid unique indexes on fields of embedded structs, where only the compiler knows the types.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
struct Address {
    zip: Option<String>,
    city: String,
    #[embed(max = 2)]
    phones: Vec<String>,
}

#[derive(Serialize, Deserialize, Document)]
#[document(
    collection = "posts",
    index(work.city; unique),
    index(work.zip; unique),
    index(work.phones; unique)
)]
struct Post {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    work: Address,
}

fn main() {}
