#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

async fn wrong(db: &Db) -> odm::Result<()> {
    let posts = db.find::<Post>().with(|p| p.author()).all().await?;
    match posts[0].1.get() {
        Loaded(author) => println!("{}", author.name.first),
    }
    Ok(())
}

fn main() {}
