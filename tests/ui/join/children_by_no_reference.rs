#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db) {
    let _ = db.find::<User>().with_children(Post::by(|p| p.votes()));
}

fn main() {}
