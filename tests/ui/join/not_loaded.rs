#[path = "../models.rs"]
mod models;

use models::*;

async fn wrong(db: &Db) -> odm::Result<()> {
    let posts = db.find::<Post>().all().await?;
    for (post, author) in &posts {
        println!("{} {author:?}", post.title);
    }
    Ok(())
}

fn main() {}
