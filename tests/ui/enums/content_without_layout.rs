use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "customers")]
struct Customer {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Serialize, Deserialize, Embedded)]
enum Payment {
    Account(Ref<Customer>),
    Of { customer: Ref<Customer> },
}

#[derive(Serialize, Deserialize, Embedded)]
enum Tags {
    Some(Vec<String>),
    Named { tags: Vec<String> },
}

fn main() {}
