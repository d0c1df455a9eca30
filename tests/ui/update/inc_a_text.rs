#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, id: ObjectId) {
    let _ = db.update::<Post>(id).inc(|p| p.title(), 1);
}

fn main() {}
