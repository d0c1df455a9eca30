#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db) {
    let _ = db.find::<Post>().with(|p| p.author().sort(|u| u.karma().asc()));
    let _ = db.find::<Post>().with(|p| p.author().limit(3));
    let _ = db.find::<Post>().with(|p| p.title().filter(|u| u.karma().eq(1)));
    let _ = db.find::<Post>().with(|p| p.author().filter(|u| u.title().eq("x")));
}

fn main() {}
