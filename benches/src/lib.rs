//! Models and figures that the benchmark programs share.

pub mod figures;
pub mod tasks;
