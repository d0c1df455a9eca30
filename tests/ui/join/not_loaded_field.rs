#[path = "../models.rs"]
mod models;

use models::*;

async fn wrong(db: &Db) -> odm::Result<()> {
    let posts = db.find::<Post>().all().await?;
    println!("{}", posts[0].author.name.first);
    Ok(())
}

fn main() {}
