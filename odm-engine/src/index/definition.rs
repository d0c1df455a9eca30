use super::{Direction, Index};
use crate::error::Result;
use crate::filter::Filter;
use crate::key;
use crate::path::Path;

/// The number of the index of `_id`, which every collection has.
pub(crate) const ID_INDEX: u32 = 0;

/// An index that exists: its definition with what is derived from it once.
pub(crate) struct IndexState {
    pub(crate) id: u32,
    pub(crate) index: Index,
    /// The definition's paths, parsed, in the same order.
    pub(crate) paths: Vec<Path>,
    /// The definition's filter, parsed.
    pub(crate) partial: Option<Filter>,
    /// What the keys of its entries begin with.
    pub(crate) prefix: Vec<u8>,
}

impl IndexState {
    pub(crate) fn new(collection: u32, id: u32, index: Index) -> Result<IndexState> {
        let partial = index.partial.as_deref().map(Filter::parse).transpose()?;
        Ok(IndexState {
            id,
            prefix: key::entries(collection, id, index.unique),
            paths: paths(&index),
            index,
            partial,
        })
    }

    /// The index of `_id`. It is unique by nature: listings do not show that as an option.
    pub(crate) fn of_id(collection: u32) -> IndexState {
        let mut index = Index::new([("_id", Direction::Ascending)]).named("_id_");
        index.unique = true;
        IndexState {
            id: ID_INDEX,
            prefix: key::entries(collection, ID_INDEX, true),
            paths: paths(&index),
            index,
            partial: None,
        }
    }

    /// The definition for people and for the catalog.
    pub(crate) fn listed(&self) -> Index {
        let mut index = self.index.clone();
        if self.id == ID_INDEX {
            index.unique = false;
        }
        index
    }
}

fn paths(index: &Index) -> Vec<Path> {
    index.keys.iter().map(|(path, _)| Path::new(path)).collect()
}
