//! A model with a scope is not accessible without a scope.
#[path = "../scopes.rs"]
mod scopes;

use odm::Filter;
use scopes::*;

fn find(db: &Db) {
    let _ = db.find::<Invoice>();
}

fn get(db: &Db) {
    let _ = db.get::<Invoice>(7);
}

fn insert(db: &Db) {
    let _ = db.insert(NewInvoice { id: 1, number: 7, product: None });
}

fn delete(db: &Db) {
    let _ = db.delete_many::<Invoice>(|_| Filter::all());
}

fn main() {}
