#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;

async fn use_it(db: &Db) {
    let _ = db.find::<Post>().skip(20).limit(20).all().await;
}

fn main() {}
