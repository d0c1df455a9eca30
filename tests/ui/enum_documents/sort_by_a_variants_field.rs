#[path = "../shapes.rs"]
mod shapes;

use shapes::*;

fn wrong(db: &Db) {
    let _ = db.find::<Shape>().sort(|s| s.circle(|c| c.radius().asc()));
}

fn main() {}
