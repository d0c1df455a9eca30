#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, id: ObjectId) {
    let _ = db.update::<Post>(id).inc(|p| p.comments().matching(|c| c.votes().gt(1) & p.votes().gt(1)).votes(), 1);
}

fn main() {}
