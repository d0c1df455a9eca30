//! The tests of `odm` that need a database: one suite of plain functions, run on every backend.
//!
//! [`suite`] has the tests; `tests/it/main.rs` makes one test of each for every backend, on a [`Fixture`] of it.
//! A real MongoDB is a part of the tests: [`mongod`] finds, downloads, starts and stops it.

pub mod corpus;
pub mod differential;
mod fixture;
#[path = "../../docs/guide/models.rs"]
#[rustfmt::skip]
#[expect(missing_docs, reason = "the guide says what they are")]
pub mod guide;
pub mod models;
pub mod mongod;
mod out_of_sight;
pub mod suite;

pub use fixture::Fixture;

/// The examples of the comparison, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/comparison.md")]
struct Comparison;

/// The guide, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/api.md")]
struct Guide;

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
