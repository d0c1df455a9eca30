#[path = "../kinds.rs"]
mod kinds;

use kinds::*;

fn wrong(db: &Db) {
    let _ = db.find::<Shape>().sort(|s| s.circle(|c| c.radius().asc()));
}

fn main() {}
