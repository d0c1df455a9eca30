use std::sync::Arc;

use crate::direction::Direction;
use crate::index::IndexState;
use crate::store::KeyRange;

/// A way to candidates for a filter, which still has to be asked about each of them.
pub(crate) struct Plan {
    pub(crate) access: Access,
    /// Whether the documents come in the order that was asked for.
    pub(crate) is_sorted: bool,
}

/// Where the candidates come from.
pub(crate) enum Access {
    /// All documents, in order of insertion.
    Collection,
    /// The documents under these keys of the index of `_id`, in their order.
    Ids(Vec<Vec<u8>>),
    /// The documents with entries in some ranges of an index.
    Index(IndexAccess),
    /// What any of these lead to.
    Union(Vec<Access>),
}

/// A walk through an index.
pub(crate) struct IndexAccess {
    pub(crate) state: Arc<IndexState>,
    /// Disjoint, in the order in which they are walked.
    pub(crate) ranges: Vec<KeyRange>,
    pub(crate) direction: Direction,
    /// Whether one document can have several entries.
    pub(crate) multikey: bool,
    /// What the ranges are, for people, one text for each field.
    pub(crate) bounds: Vec<String>,
}

impl Plan {
    pub(crate) fn collection_scan() -> Plan {
        Plan {
            access: Access::Collection,
            is_sorted: false,
        }
    }
}
