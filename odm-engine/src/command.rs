//! The operations on a collection: what a caller asks for, and how it is carried out on a state of the
//! database.
//!
//! Each file holds the operation as plain data and a function that runs it. They know nothing of
//! transactions: a read is given a state, a write an overlay on one.

pub(crate) mod aggregate;
pub(crate) mod collections;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod distinct;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod find_and_modify;
pub(crate) mod find_each;
pub(crate) mod indexes;
pub(crate) mod insert;
mod matches;
pub(crate) mod update;
mod variables;

pub use aggregate::Aggregate;
pub use count::Count;
pub use delete::{Delete, DeleteReport};
pub use explain::{Explain, Stage};
pub use find::Find;
pub use find_and_modify::{FindAndModify, FindAndModifyReport, Modification};
pub use find_each::FindEach;
pub use indexes::DropIndexes;
pub use insert::{InsertFailure, InsertReport};
pub use update::{Update, UpdateReport};

use crate::catalog::Catalog;
use crate::store::View;

/// A state of the database, as a read sees it.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) view: &'a View,
    pub(crate) catalog: &'a Catalog,
}
