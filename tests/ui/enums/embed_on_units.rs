use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
enum State {
    Open,
    Paid,
}

#[derive(Serialize, Deserialize, Embedded)]
#[serde(untagged)]
enum Source {
    Shop { place: String },
    Web { url: String },
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    state: State,
    #[embed]
    source: Source,
}

fn main() {}
