#[path = "../enums.rs"]
mod enums;

use enums::*;

fn wrong(db: &Db) {
    let _ = db.update::<Order>(1).set(|o| o.payment().card(|c| c.number()), 7);
}

fn main() {}
