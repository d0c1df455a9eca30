#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db, user: &User) {
    let _ = db.update::<Post>(user);
}

fn main() {}
