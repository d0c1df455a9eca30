//! A write to a model with a shard key needs the shard key: the id alone does not determine the shard.
#[path = "../shards.rs"]
mod shards;

use shards::*;

fn update(db: &Db) {
    let _ = db.update::<Order>(7).inc(|o| o.total(), 1);
}

fn delete(db: &Db) {
    let _ = db.delete::<Order>(7).returning();
}

fn restore(db: &Db) {
    let _ = db.restore::<Order>(7);
}

fn by_reference(db: &Db, note: &Note) {
    let _ = db.update::<Order>(&note.order).inc(|o| o.total(), 1);
}

fn across_scopes(db: &Db) {
    let _ = db.scope("acme").delete::<Invoice>(7);
    let _ = db.all_scopes().delete::<Invoice>(7);
}

// A read without the shard key asks all shards.
fn read(db: &Db, order: &Order) {
    let _ = db.get::<Order>(7);
    let _ = db.get::<Order>(order);
    let _ = db.modify::<Order>(7, |o| o.total += 1);
}

fn main() {}
