//! A model with managed fields is inserted by the insert struct.
#[path = "../managed.rs"]
mod managed;

use managed::*;

fn whole(db: &Db, task: Task) {
    let _ = db.insert(task);
}

fn given(db: &Db) {
    let _ = db.insert(NewTask { id: 1, text: String::new(), version: 7 });
}

fn main() {}
