#[path = "../shapes.rs"]
mod shapes;

use shapes::*;

fn wrong(db: &Db) {
    let _ = db.find::<Shape>().with(|s| s.circle(|c| c.radius()));
}

fn main() {}
