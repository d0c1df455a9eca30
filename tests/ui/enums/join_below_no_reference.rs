#[path = "../enums.rs"]
mod enums;

use enums::*;

fn wrong(db: &Db) {
    let _ = db.find::<Order>().with(|o| o.payment().account(|a| a.of().with(|c| c.id())));
}

fn main() {}
