//! The session determines the scope of a document.
#[path = "../scopes.rs"]
mod scopes;

use odm::Session;
use scopes::*;

fn given(acme: &Session<Shop, TenantId>) {
    let _ = acme.insert(NewInvoice { id: 1, tenant: TenantId("acme".into()), number: 7, product: None });
}

fn set(acme: &Session<Shop, TenantId>) {
    let _ = acme.update::<Invoice>(1).set(|i| i.tenant(), TenantId("globex".into()));
}

fn main() {}
