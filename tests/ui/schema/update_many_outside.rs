#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.update_many::<Draft>(|d| d.id().gt(3));
}

fn main() {}
