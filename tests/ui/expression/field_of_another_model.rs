#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().filter(|p| p.title().value().eq(<User as odm::Document>::fields().id()));
}

fn main() {}
