#[path = "../enums.rs"]
mod enums;

use enums::*;

fn wrong(db: &Db) {
    let _ = db.find::<Order>().sort(|o| o.payment().card(|c| c.number().asc()));
}

fn main() {}
