//! Fields that are part of an `_id` cannot change.
#[path = "../banks.rs"]
mod banks;

use banks::*;
use odm::prelude::*;

fn set(db: &Db, user: &User) {
    let _ = db.update::<User>(user).set(|u| u.name(), "jane");
}

fn increase_the_number(db: &Db) {
    let _ = db.update_many::<Payment>(|p| p.amount().gt(0)).inc(|p| p.number(), 1);
}

fn insert_an_id(db: &Db) {
    let _ = db.insert(NewUser { id: "users/jane".into(), name: "jane".into(), karma: 0 });
}

fn insert_a_number(db: &Db, user: &User) {
    let _ = db.insert(NewPayment { user: user.to_ref(), number: 7, amount: 0 });
}

fn insert_as_itself(db: &Db, user: User) {
    let _ = db.insert(user);
}

fn main() {}
