//! The Debian package index as documents: read from a `Packages` file, loaded, and asked joined questions.
//!
//! [`model`] says how it is laid out, [`index`] reads the file, [`order`] says in which order it can be inserted, [`load`] fills
//! a database, [`ask`] holds the questions.

pub mod ask;
pub mod index;
pub mod load;
pub mod memory;
pub mod model;
pub mod order;
pub mod table;

pub use model::Db;
