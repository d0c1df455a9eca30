#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

#[derive(Deserialize)]
struct Card {
    title: String,
}

fn use_it(db: &Db) {
    let _ = db.find::<Post>().select::<Card>();
}

fn main() {}
