#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db
        .find::<Post>()
        .filter(|p| p.votes().gt(3) && p.votes().lt(5));
}

fn main() {}
