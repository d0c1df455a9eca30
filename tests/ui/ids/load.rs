//! Invalid arguments of `load`.
#[path = "../banks.rs"]
mod banks;

use banks::*;
use odm::prelude::*;

fn no_tuple(db: &Db, user: &User) {
    let _ = db.load(user.to_ref());
}

fn an_id_of_no_model(db: &Db, user: &User) {
    let _ = db.load((user.to_ref(), "users/joe"));
}

fn not_in_the_schema(db: &Db, user: &User) {
    let _ = db.load((user.to_ref(), Ref::<Other>::new(7)));
}

fn main() {}
