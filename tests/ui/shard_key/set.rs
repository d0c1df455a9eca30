//! A shard key cannot change.
#[path = "../shards.rs"]
mod shards;

use shards::*;

fn set(db: &Db, order: &Order) {
    let _ = db.update::<Order>(order).set(|o| o.customer(), "acme");
}

fn set_of_many(db: &Db) {
    let _ = db.update_many::<Order>(|o| o.customer().eq("acme")).set(|o| o.customer(), "globex");
}

fn another_type(db: &Db) {
    let _ = db.delete::<Order>(OrderKey { id: 7, customer: 8 });
}

fn half_a_key(db: &Db) {
    let _ = db.delete::<Order>(OrderKey { id: 7 });
}

fn key_of_another_model(db: &Db) {
    let _ = db.delete::<Order>(InvoiceKey { id: 7, tenant: "acme".into() });
}

fn main() {}
