//! `under` needs ids with a further part after the prefix.
#[path = "../banks.rs"]
mod banks;

use banks::*;

fn nothing_is_under(db: &Db) {
    let _ = db.find::<User>().under("users/jane");
}

fn under_something_else(db: &Db, payment: &Payment) {
    let _ = db.find::<Payment>().under(payment);
}

fn main() {}
