use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part<'a> {
    #[serde(rename = "_id")]
    id: i64,
    name: &'a str,
}

fn main() {}
