#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().filter(|p| p.voters().matches(|u| u.karma().gt(3)));
}

fn main() {}
