//! The part of a text has a method of its own: `contains` is for the elements of an array.
#[path = "../models.rs"]
mod models;

use models::*;

async fn wrong(db: &Db) -> odm::Result<Vec<Post>> {
    db.find::<Post>().filter(|p| p.title().contains("saw")).all().await
}

fn main() {}
