#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().sort(|p| p.author().karma().asc());
}

fn main() {}
