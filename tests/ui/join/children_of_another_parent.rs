#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db) {
    let _ = db.find::<Country>().with_children(Post::by(|p| p.author()));
}

fn main() {}
