#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;

async fn use_it(db: &Db) {
    let _ = db.find::<Post>().distinct(|p| p.scores()).await;
}

fn main() {}
