#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, country: &Country) {
    let _ = db
        .find::<Post>()
        .filter(|p| p.author().eq(country.to_ref()));
}

fn main() {}
