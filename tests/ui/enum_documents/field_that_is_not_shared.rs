#[path = "../shapes.rs"]
mod shapes;

use shapes::*;

fn wrong(db: &Db) {
    let _ = db.find::<Shape>().filter(|s| s.radius().gt(2.0));
}

fn main() {}
