#[path = "../shapes.rs"]
mod shapes;

use shapes::*;

fn wrong(db: &Db) {
    let _ = db.insert(Event::Login(Login { id: 1, version: 1 }));
}

fn main() {}
