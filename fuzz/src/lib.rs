//! Fuzz targets for the engine. Each is a function of bytes that panics where the engine is wrong.
//!
//! They go through the public interface only, with documents, filters and updates made from the bytes by
//! a generator (`src/generate.rs`), as random bytes would hardly ever be one. `run` fuzzes them; the tests of
//! this crate run each on fixed inputs, on any toolchain.

mod aggregation;
mod bytes;
mod collections;
mod damage;
mod generate;
mod keys;
mod panics;
mod reading;
mod storage;
mod writing;

pub use aggregation::pipeline;
pub use bytes::bson;
pub use damage::{decoding, file, stored};
pub use keys::keys;
pub use panics::start;
pub use reading::{filter, reading};
pub use writing::update;

/// What a target does with an input.
pub type Target = fn(&[u8]);

/// The targets by their names, as the files in `fuzz_targets` are named.
pub const TARGETS: &[(&str, Target)] = &[
    ("bson", bson),
    ("decoding", decoding),
    ("file", file),
    ("filter", filter),
    ("keys", keys),
    ("pipeline", pipeline),
    ("reading", reading),
    ("stored", stored),
    ("update", update),
];
