#[path = "../shapes.rs"]
mod shapes;

use shapes::*;

fn wrong(db: &Db) {
    let _ = db.update::<Shape>(1).set(|s| s.circle(|c| c.like()), Ref::<Square>::new(2));
}

fn main() {}
