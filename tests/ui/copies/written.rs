//! Copies and snapshots have no setters.
use odm::prelude::*;

#[derive(Clone, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    price: i64,
}

#[derive(Clone, Serialize, Deserialize, Document)]
#[document(collection = "orders")]
struct Order {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    part: Ref<Part>,
    #[denormalize(from = part.name)]
    name: String,
    #[snapshot(from = part.price)]
    price: i64,
    #[snapshot]
    #[embed(max = 3)]
    remarks: Vec<String>,
}

#[derive(Schema)]
#[schema(models(Part, Order))]
struct Shop;

async fn copy(db: odm::Database<Shop>) -> odm::Result<odm::action::Updated> {
    db.update::<Order>(1).set(|o| o.name(), "made up").await
}

async fn snapshot(db: odm::Database<Shop>) -> odm::Result<odm::action::Updated> {
    db.update::<Order>(1).inc(|o| o.price(), 5).await
}

async fn frozen(db: odm::Database<Shop>) -> odm::Result<odm::action::Updated> {
    db.update::<Order>(1).push(|o| o.remarks(), "late").await
}

async fn whole(db: odm::Database<Shop>, order: Order) -> odm::Result<Order> {
    db.insert(order).await
}

fn main() {}
