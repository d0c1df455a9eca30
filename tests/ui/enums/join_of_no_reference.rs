#[path = "../enums.rs"]
mod enums;

use enums::*;

fn wrong(db: &Db) {
    let _ = db.find::<Order>().with(|o| o.payment().card(|c| c.number()));
}

fn main() {}
