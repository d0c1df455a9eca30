#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db
        .find::<Post>()
        .filter(|p| p.comments().any(|c| c.votes().gt(3) & p.votes().gt(3)));
}

fn main() {}
