//! An optional text is compared with a text.
#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().filter(|p| p.nick().eq(Some("jane")));
}

fn main() {}
