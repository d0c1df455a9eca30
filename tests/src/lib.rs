//! Shared code of the `odm` tests that need a database.
//!
//! The tests are in `tests/it`: a single suite of plain functions, each run on a [`Fixture`] of every backend. The suite is not
//! part of this library, so that the programs of this crate compile without the suite. With the feature `mongodb`, the suite also
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

pub use fixture::Fixture;
#[cfg(feature = "mongodb")]
pub use odm_mongod as mongod;

/// The compiled example of the README. The test is in this crate, because the file is outside of the package `odm`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The compiled examples of the comparison page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/comparison.md")]
struct Comparison;
