#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().sort(|p| p.author().get(|_| p.votes()).asc());
}

fn main() {}
