#[path = "../enums.rs"]
mod enums;

use enums::*;

fn wrong(db: &Db) {
    let _ = db.find::<Order>().filter(|o| o.payment().number().eq("1"));
}

fn main() {}
