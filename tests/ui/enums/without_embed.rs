use odm::prelude::*;

#[derive(Serialize, Deserialize, Embedded)]
enum Payment {
    Card { number: String },
    Cash,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    payment: Payment,
}

fn main() {}
