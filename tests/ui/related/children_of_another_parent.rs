#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db) {
    let _ = db.find::<Country>().filter(|_| Post::by(|p| p.author()).any(|p| p.votes().gt(3)));
}

fn main() {}
