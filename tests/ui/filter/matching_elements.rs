#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().filter(|p| p.comments().matching(|c| c.votes().gt(1)).votes().gt(1));
}

fn main() {}
