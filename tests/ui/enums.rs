//! The models for mistakes with enums.
#![allow(dead_code)]

use odm::prelude::*;

pub type Db = odm::Database<Shop>;

#[derive(Schema)]
#[schema(models(Order, Customer))]
pub struct Shop;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "customers")]
pub struct Customer {
    #[serde(rename = "_id")]
    pub id: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "orders")]
pub struct Order {
    #[serde(rename = "_id")]
    pub id: i64,
    #[embed]
    pub payment: Payment,
    #[embed(max = 3)]
    pub payments: Vec<Payment>,
    pub source: Source,
    pub state: State,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
#[serde(tag = "type")]
pub enum Payment {
    Card {
        number: String,
    },
    Invoice(Invoice),
    Account {
        #[reference]
        of: Ref<Customer>,
    },
    Cash,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub struct Invoice {
    pub number: String,
    pub due: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
#[serde(untagged)]
pub enum Source {
    Shop { place: String },
    Web { url: String },
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub enum State {
    Open,
    Paid,
}
