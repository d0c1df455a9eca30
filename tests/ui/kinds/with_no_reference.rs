#[path = "../kinds.rs"]
mod kinds;

use kinds::*;

fn wrong(db: &Db) {
    let _ = db.find::<Shape>().with(|s| s.circle(|c| c.radius()));
}

fn main() {}
