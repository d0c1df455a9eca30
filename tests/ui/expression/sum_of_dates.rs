#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().filter(|p| (p.when().value() + p.when()).eq(p.when()));
}

fn main() {}
