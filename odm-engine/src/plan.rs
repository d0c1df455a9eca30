//! Which way to the documents is the shortest.

mod access;
mod records;

use crate::catalog::Collection;
use crate::error::Result;
use crate::filter::Filter;
use crate::sort::Sort;
use crate::store::View;

pub(crate) use access::{Access, Plan};
pub(crate) use records::{Examined, Records};

/// Chooses how to find the documents that match `filter`.
pub(crate) fn choose(
    _view: &View,
    _collection: &Collection,
    _filter: &Filter,
    _sort: Option<&Sort>,
) -> Result<Plan> {
    Ok(Plan::collection_scan())
}
