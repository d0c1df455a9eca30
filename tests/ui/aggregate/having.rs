//! A condition on groups compares an aggregate with a value of its type.
#[path = "../models.rs"]
mod models;

use models::*;
use odm::Document;

async fn text_for_a_count(db: &Db) {
    let groups = db.find::<Post>().group_by(|p| p.title()).select(|g| g.count());
    let _ = groups.having(|count| count.gt("three")).all().await;
}

async fn condition_on_documents(db: &Db) {
    let groups = db.find::<Post>().group_by(|p| p.title()).select(|g| g.count());
    let _ = groups.having(|_| Post::fields().votes().gt(3)).all().await;
}

async fn day_of_a_number(db: &Db) {
    let _ = db.find::<Post>().group_by(|p| p.votes().by_day("UTC")).select(|g| g.count()).all().await;
}

fn main() {}
