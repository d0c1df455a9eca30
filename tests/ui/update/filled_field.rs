//! The framework counts, and an application cannot.
#[path = "../filled.rs"]
mod filled;

use filled::*;

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
