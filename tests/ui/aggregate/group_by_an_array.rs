#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;

async fn use_it(db: &Db) {
    let _ = db.find::<Post>().group_by(|p| p.tags()).select(|g| g.count()).all().await;
}

fn main() {}
