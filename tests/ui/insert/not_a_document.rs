//! Only documents can be inserted.
#[path = "../managed.rs"]
mod managed;

use managed::*;

fn text(db: &Db) {
    let _ = db.insert("text");
}

fn several(db: &Db, tasks: Vec<NewTask>) {
    let _ = db.insert(tasks);
}

fn main() {}
