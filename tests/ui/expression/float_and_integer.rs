#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().filter(|p| (p.votes().value() * 1.5).gt(3));
}

fn main() {}
