#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db, country: &Country) {
    let _ = db.find::<Post>().filter(|p| p.author().eq(country));
}

fn main() {}
