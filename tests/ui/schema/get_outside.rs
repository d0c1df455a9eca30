#[path = "../models.rs"]
mod models;

use models::*;

async fn wrong(db: &Db) {
    let _ = db.get::<Draft>(3).await;
}

fn main() {}
