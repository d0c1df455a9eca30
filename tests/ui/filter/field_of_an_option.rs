#[path = "../models.rs"]
mod models;

use models::*;

fn wrong(db: &Db, nick: Option<&str>) {
    let _ = db.find::<Post>().filter(|p| p.nick().eq(nick));
}

fn main() {}
