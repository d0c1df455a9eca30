//! What the example programs share.
//!
//! The programs are in `src/bin`: the numbered ones show one way to lay out data each, `catalog` does a whole job on
//! real data.

pub mod catalog;
