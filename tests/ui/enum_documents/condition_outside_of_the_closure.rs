#[path = "../shapes.rs"]
mod shapes;

use shapes::*;

fn wrong(db: &Db) {
    let _ = db.find::<Shape>().filter(|s| s.circle(|c| c.radius()).gt(2.0));
}

fn main() {}
