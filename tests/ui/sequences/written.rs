//! A sequence number and the field of `per` never change.
use odm::prelude::*;

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    shop: String,
    #[sequence(per = shop)]
    number: i64,
    total: i64,
}

#[derive(Schema)]
#[schema(models(Order))]
struct Trade;

fn set_the_number(db: &odm::Database<Trade>) {
    let _ = db.update::<Order>(7).set(|o| o.number(), 8);
}

fn set_the_shop(db: &odm::Database<Trade>) {
    let _ = db.update::<Order>(7).set(|o| o.shop(), "saws");
}

fn insert_with_a_number(db: &odm::Database<Trade>) {
    let _ = db.insert(NewOrder { id: 1, shop: "saws".into(), total: 5, number: 7 });
}

fn insert_the_document(db: &odm::Database<Trade>, order: Order) {
    let _ = db.insert(order);
}

fn main() {}
