//! A query locks no documents.
#[path = "../models.rs"]
mod models;

use models::*;

async fn wrong(db: &Db) -> odm::Result<Vec<Post>> {
    db.find::<Post>().filter(|p| p.draft().eq(true)).for_update().all().await
}

fn main() {}
