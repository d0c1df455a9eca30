#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;
use odm::prelude::*;

async fn use_it(db: &Db) {
    let _ = db.find::<Post>().sum(|_| User::fields().karma()).await;
    let _ = db.find::<Post>().group_by(|_| User::fields().karma()).select(|g| g.count()).all().await;
}

fn main() {}
