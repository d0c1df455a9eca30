//! Commands: operations on collections, as plain data with a function that runs them.
//!
//! Commands know nothing of transactions. A read command gets a state of the database, and a write command gets an overlay on a
//! state.

pub(crate) mod aggregate;
mod aggregate_output;
pub(crate) mod bulk_write;
pub(crate) mod collections;
pub(crate) mod count;
pub(crate) mod delete;
pub(crate) mod distinct;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod find_and_modify;
pub(crate) mod find_each;
mod id_lookup;
pub(crate) mod indexes;
pub(crate) mod insert;
mod matches;
pub(crate) mod stats;
pub(crate) mod update;
pub(crate) mod validate;
mod variables;

pub use aggregate::Aggregate;
pub use bulk_write::{CollectionWrite, WriteOperation, WriteReport};
pub use count::Count;
pub use delete::{Delete, DeleteReport};
pub use distinct::Distinct;
pub use explain::{Explain, ExplainStage};
pub use find::Find;
pub use find_and_modify::{FindAndModify, FindAndModifyReport, Modification};
pub use find_each::FindEach;
pub use indexes::DropIndexes;
pub use insert::{InsertFailure, InsertReport};
pub use stats::{CollectionStats, DatabaseStats, IndexStats};
pub use update::{Update, UpdateReport};

use bson::{RawBson, RawDocument};

use crate::catalog::Catalog;
use crate::collation::ValueOrder;
use crate::error::{Error, Result};
use crate::overlay::WriteOverlay;
use crate::plan::{IndexHint, parse_natural};
use crate::sort::Sort;
use crate::store::StoreView;

/// A state of the database for reads.
#[derive(Clone, Copy)]
pub(crate) struct ReadState<'a> {
    pub(crate) view: &'a StoreView,
    pub(crate) catalog: &'a Catalog,
}

impl<'a> ReadState<'a> {
    /// Returns the state of a write with all its changes so far.
    fn of_overlay(overlay: &'a WriteOverlay) -> ReadState<'a> {
        ReadState {
            view: overlay.view(),
            catalog: overlay.catalog(),
        }
    }
}

/// Parses the order and the hint of a command.
fn parse_order(
    sort: Option<&RawDocument>,
    hint: Option<&RawBson>,
    order: &ValueOrder,
) -> Result<(Option<Sort>, Option<IndexHint>)> {
    let hint = parse_hint(hint)?;
    let Some(sort) = sort else {
        return Ok((None, hint));
    };
    let Some(direction) = parse_natural(sort, "sort")? else {
        let sort = Sort::parse(sort, order)?;
        return Ok((Some(sort).filter(|sort| !sort.is_empty()), hint));
    };
    // A natural order requires a collection scan, so it excludes every different hint.
    let natural = IndexHint::Natural(direction);
    if hint.is_some_and(|hint| hint != natural) {
        return Err(Error::bad_value(
            "a sort by '$natural' allows no other hint; remove the hint",
        ));
    }
    Ok((None, Some(natural)))
}

fn parse_hint(hint: Option<&RawBson>) -> Result<Option<IndexHint>> {
    let parsed = hint.map(|hint| IndexHint::parse(hint.as_raw_bson_ref()));
    Ok(parsed.transpose()?.flatten())
}
