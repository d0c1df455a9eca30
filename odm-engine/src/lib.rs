//! An embedded BSON document store with MongoDB's semantics, in one file or in memory.
//!
//! ```
//! use bson::rawdoc;
//! use odm_engine::{Database, Direction, Find, Index};
//!
//! # fn main() -> odm_engine::Result<()> {
//! let db = Database::memory(); // or `Database::open("shop.odm")?`
//! db.create_indexes("parts", &[Index::new([("name", Direction::Ascending)])])?;
//! db.insert("parts", vec![rawdoc! { "name": "wheel", "price": 5 }, rawdoc! { "name": "axle", "price": 9 }])?;
//!
//! let cheap = Find { filter: rawdoc! { "price": { "$lt": 7 } }, ..Find::default() };
//! let found: Vec<_> = db.find("parts", &cheap)?.collect::<Result<_, _>>()?;
//! assert_eq!(found.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Calls block and may be made from any thread. Readers see a snapshot and never wait for writers. A write is durable when its
//! call returns, unless the caller chooses [`Durability::Relaxed`]. A MongoDB feature that the engine lacks is refused with an error that names the feature.
//!
//! The modules below are in reading order. Each module uses only modules further down.

mod backup;
mod compaction;
mod database;
mod expiry;
mod transaction;
mod watch;

mod session;

mod command;
mod cursor;

mod accumulator;
mod pipeline;

mod expression;
mod filter;
mod plan;
mod projection;
mod sort;
mod update;

pub mod decimal;
mod direction;
mod durability;
mod path;
mod pattern;
mod value;

mod catalog;
mod commit;
mod overlay;

mod change;
mod document;

mod collation;
mod index;
mod key;
mod store;

mod brief;
mod interrupt;

mod error;

#[cfg(test)]
mod examples;

pub use brief::{brief_time_left, run_briefly};
pub use collation::Collation;
pub use command::{
    Aggregate, CollectionStats, CollectionWrite, Count, DatabaseStats, Delete, DeleteReport,
    Distinct, DropIndexes, Explain, ExplainStage, Find, FindAndModify, FindAndModifyReport,
    FindEach, IndexStats, InsertFailure, InsertReport, Modification, Update, UpdateReport,
    WriteOperation, WriteReport,
};
pub use commit::ChangeLogLimits;
pub use compaction::CompactionReport;
pub use cursor::Cursor;
pub use database::Database;
pub use direction::Direction;
pub use durability::Durability;
pub use error::{DuplicateKey, Error, ErrorKind, Result};
pub use index::Index;
pub use interrupt::Interrupt;
pub use session::Session;
pub use transaction::Transaction;
/// For the crate odm-wire. Not part of the public interface.
#[doc(hidden)]
pub use value::element_type_name;
pub use watch::{ChangeStream, FullDocument, Watch, WatchFrom};

/// The example of the README, compiled as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
