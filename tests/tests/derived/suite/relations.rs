//! References, inverses, delete rules and joins.

pub mod conditions;
pub mod delete_rules;
pub mod inverses;
pub mod nested_references;
pub mod polymorphic;
pub mod reference_updates;
pub mod references;
pub mod relation;
pub mod round_trips;
pub mod soft_cascade;
pub mod tenant_documents;
pub mod tenants;
