#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db
        .update_many::<Post>(|p| p.draft().eq(true))
        .inc(|p| p.votes(), 1)
        .returning_after();
}

fn main() {}
