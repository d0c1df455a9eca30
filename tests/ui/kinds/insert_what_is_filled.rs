#[path = "../kinds.rs"]
mod kinds;

use kinds::*;

fn wrong(db: &Db) {
    let _ = db.insert(Event::Login(Login { id: 1, version: 1 }));
}

fn main() {}
