#[path = "../models.rs"]
mod models;

use models::*;
use odm::prelude::*;

fn wrong(db: &Db, id: ObjectId) {
    let _ = db.update::<Post>(id).pull_where(|p| p.comments(), |c| c.text().eq(3));
}

fn main() {}
