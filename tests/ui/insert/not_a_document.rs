//! Only documents are inserted.
#[path = "../filled.rs"]
mod filled;

use filled::*;

fn text(db: &Db) {
    let _ = db.insert("text");
}

fn several(db: &Db, tasks: Vec<NewTask>) {
    let _ = db.insert(tasks);
}

fn main() {}
