#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db, draft: Draft) {
    let _ = db.insert(draft);
}

fn main() {}
