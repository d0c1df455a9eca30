//! A scope is a reference to a storable value.
#[path = "../scopes.rs"]
mod scopes;

use scopes::*;

struct Tenant;

fn no_stored_type(db: &Db) {
    let _ = db.scope(&Tenant);
}

fn by_value(db: &Db) {
    let _ = db.scope(TenantId("acme".into()));
}

fn a_document(db: &Db, product: Product) {
    let _ = db.scope(&product);
}

fn main() {}
