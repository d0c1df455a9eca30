#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

async fn use_it(db: &Db) {
    let _ = db.find::<Post>().group_by(|p| p.author()).select(|_| Post::fields().votes()).all().await;
}

fn main() {}
