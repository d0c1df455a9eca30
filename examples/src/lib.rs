//! Shared code of the example programs.
//!
//! The programs are in `src/bin`. The program `catalog` runs a complete job on real data. Each of the remaining programs shows a
//! single pattern. `README.md` lists the programs by problem.

pub mod catalog;
#[expect(missing_docs, reason = "the names explain the fields")]
pub mod shop;
