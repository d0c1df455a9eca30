#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db) {
    let _ = db.update_many::<Post>(|_| User::fields().karma().gt(3));
}

fn main() {}
