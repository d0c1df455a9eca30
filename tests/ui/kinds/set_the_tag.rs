#[path = "../kinds.rs"]
mod kinds;

use kinds::*;

fn wrong(db: &Db) {
    let _ = db.update::<Shape>(1).set(|s| s.kind(), "square");
}

fn main() {}
