#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.update::<Draft>(3);
}

fn main() {}
