//! Shared code of the `odm` tests that need a database.
//!
//! The tests are in `tests/it` and `tests/derived`: a suite of plain functions, each run on a [`Fixture`] of every backend. The suite
//! is not part of this library, so that the programs of this crate compile without the suite. The two targets compile side by side. With the feature `mongodb`, the suite also
//! runs on a real MongoDB: the crate `odm-mongod` finds, downloads, starts and stops the server.

pub mod aftermath;
pub mod corpus;
#[cfg(feature = "mongodb")]
pub mod differential;
mod fixture;
pub mod models;
#[expect(missing_docs, reason = "the models are as good as any")]
pub mod office;
pub mod scales;
pub mod schedule;
pub mod storm;
pub mod suite;

pub use fixture::Fixture;
#[cfg(feature = "mongodb")]
pub use odm_mongod as mongod;

/// Asserts that the check has no findings and that no pending work is left.
///
/// # Panics
///
/// If the check has findings, or work is left.
pub async fn assert_clean<S: odm::Schema>(db: &odm::Database<S>) {
    let report = db.check().await.expect("the check runs");
    assert!(report.is_clean(), "{report}");
    let pending = db.pending().await.expect("pending work can be read");
    assert!(pending.is_empty(), "{pending}");
}

/// The compiled example of the README. The test is in this crate, because the file is outside of the package `odm`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The compiled examples of the comparison page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/comparison.md")]
struct Comparison;
