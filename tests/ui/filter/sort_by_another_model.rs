#[path = "../models.rs"]
mod models;

use models::*;
use odm::Document;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().sort(|_| User::fields().karma().asc());
}

fn main() {}
