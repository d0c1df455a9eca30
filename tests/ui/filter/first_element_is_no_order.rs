#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().sort(|p| p.comments().first_matching(|c| c.votes().gt(1)).votes().asc());
}

fn main() {}
