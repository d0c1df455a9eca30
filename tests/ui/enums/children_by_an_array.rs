#[path = "../enums.rs"]
mod enums;

use enums::*;
use odm::prelude::*;

fn wrong(db: &Db) {
    let _ = db.find::<Customer>().with_children(Order::by(|o| o.payments().account(|a| a.of())));
}

fn main() {}
