#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.update_many::<Post>(|p| p.votes().gt(3)).set(|p| p.author().get(|u| u.karma()), 3);
}

fn main() {}
