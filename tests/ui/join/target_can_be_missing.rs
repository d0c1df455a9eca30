#[path = "../models.rs"]
mod models;

use models::*;

async fn wrong(db: &Db) -> odm::Result<()> {
    let posts = db.find::<Post>().with(|p| p.author()).all().await?;
    println!("{}", posts[0].1.name.first);
    Ok(())
}

fn main() {}
