//! A division needs the value for a zero divisor, and computes an `f64`.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "baskets")]
struct Basket {
    #[serde(rename = "_id")]
    id: i64,
    apples: i64,
    oranges: i64,
    #[computed(1 + apples / oranges)]
    no_default: f64,
    #[computed(apples * oranges, default = 0.0)]
    no_division: f64,
    #[computed(apples / oranges, default = oranges)]
    no_number: f64,
    #[computed(apples / oranges, fallback = 1)]
    no_setting: f64,
    #[computed(apples / oranges, default = 0.0, apples)]
    three: f64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "quotients")]
struct Quotient {
    #[serde(rename = "_id")]
    id: i64,
    apples: i64,
    oranges: i64,
    #[computed(apples / oranges, default = 0)]
    whole: i64,
}

fn main() {}
