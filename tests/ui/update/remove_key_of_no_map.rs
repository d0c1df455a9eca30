#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, id: ObjectId) {
    let _ = db.update::<Post>(id).remove_key(|p| p.title(), "x");
}

fn main() {}
