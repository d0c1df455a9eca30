use std::sync::Arc;

use crate::direction::Direction;
use crate::index::IndexState;
use crate::store::KeyRange;

/// A way to candidates for a filter, which still has to be asked about each of them.
pub(crate) struct Plan {
    pub(crate) access: Access,
    /// Whether the documents come in the order that was asked for.
    pub(crate) is_sorted: bool,
    /// The names of the indexes that would have served, too.
    pub(crate) rejected: Vec<String>,
}

/// Where the candidates come from.
pub(crate) enum Access {
    /// All documents, in order of insertion or against it.
    Collection(Direction),
    /// The documents under some keys of the index of `_id`.
    Ids(IdAccess),
    /// The documents with entries in some ranges of an index.
    Index(IndexAccess),
    /// What any of these lead to.
    Union(Vec<Access>),
}

/// Look-ups by `_id`.
pub(crate) struct IdAccess {
    pub(crate) state: Arc<IndexState>,
    /// The whole keys of the entries, in the order in which they are looked up.
    pub(crate) keys: Box<dyn Iterator<Item = Vec<u8>> + Send>,
    pub(crate) is_covered: bool,
    pub(crate) bounds: Vec<String>,
}

/// A walk through an index.
pub(crate) struct IndexAccess {
    pub(crate) state: Arc<IndexState>,
    pub(crate) walk: Walk,
    pub(crate) direction: Direction,
    /// Whether one document can have several entries.
    pub(crate) multikey: bool,
    /// Whether the entries have all of the documents that is asked for.
    pub(crate) is_covered: bool,
    /// What the ranges are, for people, one text for each field.
    pub(crate) bounds: Vec<String>,
}

/// How disjoint ranges are walked.
pub(crate) enum Walk {
    /// One after the other. They are made one by one: a filter may have a million values.
    InTurn(Box<dyn Iterator<Item = KeyRange> + Send>),
    /// All at once, in the order of what the keys have behind their beginnings of these lengths.
    Merged(Vec<(KeyRange, usize)>),
}

impl Access {
    /// Whether no document is read.
    pub(crate) fn is_covered(&self) -> bool {
        match self {
            Access::Ids(ids) => ids.is_covered,
            Access::Index(index) => index.is_covered,
            Access::Collection(_) | Access::Union(_) => false,
        }
    }
}

impl Plan {
    pub(crate) fn collection_scan(direction: Direction) -> Plan {
        Plan {
            access: Access::Collection(direction),
            is_sorted: false,
            rejected: Vec::new(),
        }
    }
}
