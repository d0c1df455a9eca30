#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db, user: User) {
    let _ = db
        .update_many::<User>(|u| u.karma().eq(1))
        .inc(|u| u.karma(), 1)
        .or_insert(user);
}

fn main() {}
