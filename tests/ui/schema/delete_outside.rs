#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.delete::<Draft>(3);
}

fn main() {}
