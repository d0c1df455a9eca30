//! An insert struct needs a value for every field that is not managed.
#[path = "../managed.rs"]
mod managed;

use managed::*;

fn missing(db: &Db) {
    let _ = db.insert(NewTask { id: 1 });
}

fn main() {}
