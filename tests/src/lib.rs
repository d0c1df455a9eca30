//! What the tests of `odm` that need a database have in common.
//!
//! The tests themselves are in `tests/it`: one suite of plain functions, each run on a [`Fixture`] of every backend. It is not part of
//! this library, so that the programs beside it are compiled without it.
//! A real MongoDB is a part of the tests: [`mongod`] finds, downloads, starts and stops it.

pub mod aftermath;
pub mod corpus;
pub mod differential;
mod fixture;
#[path = "../../docs/guide/models.rs"]
#[rustfmt::skip]
#[expect(missing_docs, reason = "the guide says what they are")]
pub mod guide;
pub mod models;
#[expect(missing_docs, reason = "the models are as good as any")]
pub mod office;
pub mod scales;
#[cfg(feature = "engine")]
pub mod schedule;
pub mod storm;

pub use fixture::Fixture;
pub use odm_mongod as mongod;

/// The examples of the comparison, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/comparison.md")]
struct Comparison;

/// The guide, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/api.md")]
struct Guide;

/// That of arrays that overflow, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/overflow.md")]
struct Arrays;

#[cfg(test)]
mod tests {
    /// What the examples of the guide use is what it shows.
    #[test]
    fn the_guide_shows_its_models() {
        let guide = include_str!("../../docs/guide/api.md");
        let (_, models) = include_str!("../../docs/guide/models.rs")
            .split_once("\n\n")
            .unwrap();
        assert!(guide.contains(&format!("```rust\n{models}```")));
    }
}
