#[path = "../kinds.rs"]
mod kinds;

use kinds::*;

fn wrong(db: &Db) {
    let _ = db.update::<Shape>(1).set(|s| s.circle(|c| c.like()), Ref::<Square>::new(2));
}

fn main() {}
