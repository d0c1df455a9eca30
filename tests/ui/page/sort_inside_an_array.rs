#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;

async fn use_it(db: &Db) {
    let _ = db.find::<Post>().sort(|p| p.comments().votes().desc()).page(20).await;
}

fn main() {}
