//! The operations on a collection: what a caller asks for, and how it is carried out on a state of the
//! database.
//!
//! Each file holds the operation as plain data and a function that runs it. They know nothing of
//! transactions: a read is given a state, a write an overlay on one.

pub(crate) mod aggregate;
pub(crate) mod bulk_write;
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
pub(crate) mod validate;
mod variables;

pub use aggregate::Aggregate;
pub use bulk_write::{BulkWrite, Write, Written};
pub use count::Count;
pub use delete::{Delete, DeleteReport};
pub use explain::{Explain, Stage};
pub use find::Find;
pub use find_and_modify::{FindAndModify, FindAndModifyReport, Modification};
pub use find_each::FindEach;
pub use indexes::DropIndexes;
pub use insert::{InsertFailure, InsertReport};
pub use update::{Update, UpdateReport};

use bson::{RawBson, RawDocument};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::plan::{Hint, natural};
use crate::sort::Sort;
use crate::store::View;

/// A state of the database, as a read sees it.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) view: &'a View,
    pub(crate) catalog: &'a Catalog,
}

/// The order that is asked for, and the way to the documents.
fn parse_order(
    sort: Option<&RawDocument>,
    hint: Option<&RawBson>,
) -> Result<(Option<Sort>, Option<Hint>)> {
    let hint = parse_hint(hint)?;
    let Some(sort) = sort else {
        return Ok((None, hint));
    };
    let Some(direction) = natural(sort, "sort")? else {
        let sort = Sort::parse(sort)?;
        return Ok((Some(sort).filter(|sort| !sort.is_empty()), hint));
    };
    // The order of insertion is a way to the documents, and leaves room for no other.
    let natural = Hint::Natural(direction);
    if hint.is_some_and(|hint| hint != natural) {
        return Err(Error::bad_value(
            "a sort by '$natural' allows no other hint",
        ));
    }
    Ok((None, Some(natural)))
}

fn parse_hint(hint: Option<&RawBson>) -> Result<Option<Hint>> {
    let parsed = hint.map(|hint| Hint::parse(hint.as_raw_bson_ref()));
    Ok(parsed.transpose()?.flatten())
}
