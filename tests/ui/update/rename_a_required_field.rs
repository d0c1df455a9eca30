#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, id: ObjectId) {
    let _ = db.update::<Post>(id).rename(|p| p.votes(), |p| p.votes());
}

fn main() {}
