//! What derived code must stand: names, generics, visibility, lints. See also `strict/lib.rs` and `ui/`.

mod collisions;
mod enums;
mod futures;
mod ids;
mod kinds;
mod names;
#[rustfmt::skip]
mod remedies;
mod renamed;
mod shapes;
mod shard_key;
