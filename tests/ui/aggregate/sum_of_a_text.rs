#[path = "../models.rs"]
mod models;

#[allow(unused_imports)]
use models::*;

async fn use_it(db: &Db) {
    let _ = db.find::<Post>().sum(|p| p.title()).await;
    let _ = db.find::<Post>().group_by(|p| p.draft()).select(|g| g.avg(|p| p.nick())).all().await;
}

fn main() {}
