#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

#[deny(unused_must_use)]
fn wrong(db: &Db, id: ObjectId, country: Country) {
    db.update::<Post>(id).inc(|p| p.votes(), 1);
    db.delete::<Post>(id);
    db.insert(country);
    db.get::<Post>(id);
}

fn main() {}
