#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().with(|_| User::fields().country());
}

fn main() {}
