//! A model with filled fields is inserted without them.
#[path = "../filled.rs"]
mod filled;

use filled::*;

fn whole(db: &Db, task: Task) {
    let _ = db.insert(task);
}

fn given(db: &Db) {
    let _ = db.insert(NewTask { id: 1, text: String::new(), version: 7 });
}

fn main() {}
