#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().with(|p| p.author().with_children(Draft::by(|d| d.author())));
}

fn main() {}
