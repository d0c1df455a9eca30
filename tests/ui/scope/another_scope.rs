//! A session for a scope of a different type, or for all scopes, gives no access.
#[path = "../scopes.rs"]
mod scopes;

use scopes::*;

fn of_a_region(db: &Db) {
    let _ = db.scope(&Region("north".into())).find::<Invoice>();
}

fn insert_for_nobody(db: &Db) {
    let _ = db.all_scopes().insert(NewInvoice { id: 1, number: 7, product: None });
}

fn out_of_a_scope(db: &Db) {
    let _ = db.scope(&TenantId("acme".into())).all_scopes();
}

fn main() {}
