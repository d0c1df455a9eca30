#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, id: ObjectId) {
    let _ = db.update::<Post>(id).push_with(|p| p.tags(), ["a"], |push| push.sort(|t| t));
}

fn main() {}
