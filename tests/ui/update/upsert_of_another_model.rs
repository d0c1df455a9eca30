#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, id: ObjectId, user: User) {
    let _ = db.update::<Post>(id).inc(|p| p.votes(), 1).or_insert(user);
}

fn main() {}
