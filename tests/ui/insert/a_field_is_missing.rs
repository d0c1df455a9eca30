//! An insertion has all that the application knows.
#[path = "../filled.rs"]
mod filled;

use filled::*;

fn missing(db: &Db) {
    let _ = db.insert(NewTask { id: 1 });
}

fn main() {}
