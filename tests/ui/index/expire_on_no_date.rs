use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[index(expire_after_seconds = 60)]
    count: i64,
}

fn main() {}
