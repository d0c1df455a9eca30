//! Fuzz targets for the engine. Each target is a function of bytes that panics if the engine is wrong.
//!
//! The targets use only the public interface. A generator (`src/generate.rs`) makes documents, filters and updates from the
//! bytes, because random bytes are almost never valid BSON. `run` fuzzes the targets. The tests of this crate run each target on
//! fixed inputs, with any toolchain.

mod aggregation;
mod bytes;
mod collections;
mod damage;
mod find;
mod generate;
mod keys;
mod panics;
mod storage;
mod update;
mod wire;

pub use aggregation::pipeline;
pub use bytes::bson;
pub use damage::{decoding, file, stored};
pub use find::{filter, find};
pub use keys::keys;
pub use panics::start;
pub use update::update;
pub use wire::wire;

/// A fuzz target: a function of an input.
pub type Target = fn(&[u8]);

/// The targets by name, equal to the file names in `fuzz_targets`.
pub const TARGETS: &[(&str, Target)] = &[
    ("bson", bson),
    ("decoding", decoding),
    ("file", file),
    ("filter", filter),
    ("find", find),
    ("keys", keys),
    ("pipeline", pipeline),
    ("stored", stored),
    ("update", update),
    ("wire", wire),
];
