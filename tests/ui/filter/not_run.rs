#[path = "../models.rs"]
mod models;

use models::*;

#[deny(unused_must_use)]
fn wrong(db: &Db) {
    db.find::<Post>().filter(|p| p.votes().gt(3));
}

fn main() {}
