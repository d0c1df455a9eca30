//! A model without a soft delete has no operations for deleted documents.
#[path = "../scopes.rs"]
mod scopes;

use scopes::*;

fn with_deleted(db: &Db) {
    let _ = db.find::<Product>().with_deleted();
}

fn only_deleted(db: &Db) {
    let _ = db.find::<Product>().only_deleted();
}

fn get(db: &Db) {
    let _ = db.get::<Product>(7).with_deleted();
}

fn permanently(db: &Db) {
    let _ = db.delete::<Product>(7).permanently();
}

fn restore(db: &Db) {
    let _ = db.restore::<Product>(7);
}

fn main() {}
