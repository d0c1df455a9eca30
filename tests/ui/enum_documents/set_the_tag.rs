#[path = "../shapes.rs"]
mod shapes;

use shapes::*;

fn wrong(db: &Db) {
    let _ = db.update::<Shape>(1).set(|s| s.kind(), "square");
}

fn main() {}
