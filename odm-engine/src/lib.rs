//! An embedded BSON document store with MongoDB's semantics.
#![expect(
    dead_code,
    reason = "the commands that use these modules are on their way"
)]

mod error;
mod filter;
mod index;
mod path;
mod projection;
mod sort;
mod update;
mod value;

pub use error::{Error, Result};
