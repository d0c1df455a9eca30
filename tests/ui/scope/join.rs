//! A join cannot leave the scope of the session.
#[path = "../scopes.rs"]
mod scopes;

use odm::Document;
use scopes::*;

fn join(db: &Db) {
    let _ = db.find::<Product>().with(|p| p.last());
}

fn nested(db: &Db) {
    let _ = db.find::<Product>().with(|p| p.last().with(|i| i.product()));
}

fn children(db: &Db) {
    let _ = db.find::<Product>().with_children(Invoice::by(|i| i.product()));
}

fn main() {}
