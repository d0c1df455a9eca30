#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db, votes: i32) {
    let _ = db.find::<Post>().filter(|p| p.votes().gt(votes));
}

fn main() {}
