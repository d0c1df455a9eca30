//! The Debian package index as documents: reading a `Packages` file, loading a database, and queries with joins.
//!
//! [`model`] defines the layout, [`index`] reads the file, [`order`] computes the insert order, [`load`] fills a database, and
//! [`queries`] contains the queries.

pub mod index;
pub mod load;
pub mod memory;
pub mod model;
pub mod order;
pub mod queries;
pub mod table;

pub use model::Db;
