#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;

async fn use_it(db: &Db) {
    let _ = db.find::<User>().group_by(|u| u.name()).select(|g| g.count()).all().await;
}

fn main() {}
