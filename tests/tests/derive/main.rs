//! Tests of derived code with unusual names, generics, visibility and lints. See also `strict/lib.rs` and `ui/`.

mod collisions;
mod enum_documents;
mod enums;
mod futures;
mod ids;
mod insert_structs;
mod json_schema;
mod names;
#[rustfmt::skip]
mod remedies;
mod renamed;
mod shapes;
mod shard_key;
