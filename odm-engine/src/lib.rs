//! An embedded BSON document store with MongoDB's semantics.

mod database;
mod expiry;
mod transaction;

mod command;
mod cursor;

mod filter;
mod plan;
mod projection;
mod sort;
mod update;

mod path;
mod value;

mod catalog;
mod commit;
mod document;
mod overlay;

mod index;
mod key;
mod store;

mod error;

pub use command::{
    Delete, DeleteReport, Explain, Find, FindEach, InsertReport, Stage, Update, UpdateReport,
};
pub use cursor::Cursor;
pub use database::Database;
pub use error::{DuplicateKey, Error, ErrorKind, Result};
pub use index::{Direction, Index};
pub use transaction::Transaction;
