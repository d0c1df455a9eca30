#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;

async fn use_it(db: &Db, token: &str) {
    let _ = db.find::<Post>().page(20).after(token).await;
}

fn main() {}
