#[path = "../enums.rs"]
mod enums;

use enums::*;

fn wrong(db: &Db) {
    let _ = db.find::<Order>().filter(|o| o.source().shop(|s| s.place().eq("x")));
}

fn main() {}
