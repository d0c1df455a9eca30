use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "customers")]
struct Customer {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Payment {
    Account(#[reference] Ref<Customer>),
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    payment: Payment,
}

#[derive(Schema)]
#[schema(models(Order))]
struct Shop;

fn main() {}
