#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().filter(|p| p.author().matches(|_| p.votes().gt(3)));
}

fn main() {}
