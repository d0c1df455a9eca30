#[path = "../enums.rs"]
mod enums;

use enums::*;

fn wrong(db: &Db) {
    let _ = db.find::<Order>().filter(|o| o.state().gt(State::Open));
}

fn main() {}
