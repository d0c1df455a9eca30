#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

async fn use_it(db: &Db) {
    let _ = db.find::<Post>().group_by(|p| p.author()).select(|g| g.count()).sort(|_, _| Post::fields().votes().asc()).all().await;
}

fn main() {}
