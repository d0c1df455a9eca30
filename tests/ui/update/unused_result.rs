#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

#[deny(unused_must_use)]
async fn wrong(db: &Db, id: ObjectId) {
    db.update::<Post>(id).inc(|p| p.votes(), 1).await;
}

fn main() {}
