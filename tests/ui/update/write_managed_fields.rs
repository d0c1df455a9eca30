//! Managed fields have no setters.
#[path = "../managed.rs"]
mod managed;

use managed::*;

fn set(db: &Db) {
    let _ = db.update::<Task>(1).set(|t| t.version(), 7);
}

fn inc(db: &Db) {
    let _ = db.update::<Task>(1).inc(|t| t.version(), 1);
}

fn current_date(db: &Db) {
    let _ = db.update::<Task>(1).current_date(|t| t.changed());
}

fn main() {}
