//! A patch names fields of the model that an update can set, with an `Option` of their types.
#[path = "../managed.rs"]
mod managed;

use managed::*;
use odm::prelude::*;

#[derive(Patch)]
#[patch(of = Task)]
struct NoOption {
    text: String,
}

#[derive(Patch)]
#[patch(of = Task)]
struct AnotherType {
    text: Option<i64>,
}

#[derive(Patch)]
#[patch(of = Task)]
struct UnknownField {
    texd: Option<String>,
}

#[derive(Patch)]
#[patch(of = Task)]
struct ManagedField {
    version: Option<i64>,
}

#[derive(Patch)]
#[patch(of = Task)]
struct NestedValue {
    #[patch(nested)]
    text: Option<String>,
}

fn main() {}
