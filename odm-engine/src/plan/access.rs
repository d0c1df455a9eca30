use std::sync::Arc;

use super::scan::ScanBounds;
use crate::direction::Direction;
use crate::index::IndexState;
use crate::store::KeyRange;

/// A query plan: access to candidates that the filter must check.
pub(crate) struct QueryPlan {
    pub(crate) access: AccessPath,
    /// Whether the documents come in the requested order.
    pub(crate) is_sorted: bool,
    /// The names of usable indexes that were rejected.
    pub(crate) rejected: Vec<String>,
}

/// The source of the candidates.
pub(crate) enum AccessPath {
    /// All documents, in order of insertion or in reverse.
    Collection(Direction),
    /// The documents with given keys in a unique index.
    Keys(KeyAccess),
    /// The documents with entries in some ranges of an index.
    Index(IndexAccess),
    /// The union of several accesses.
    Union(Vec<AccessPath>),
}

/// Look-ups of complete keys in a unique index without array elements.
pub(crate) struct KeyAccess {
    pub(crate) state: Arc<IndexState>,
    /// The keys of the entries, in the order of the look-ups.
    pub(crate) keys: Box<dyn Iterator<Item = Vec<u8>> + Send>,
    pub(crate) is_covered: bool,
    pub(crate) bounds: ScanBounds,
}

/// A walk through an index.
pub(crate) struct IndexAccess {
    pub(crate) state: Arc<IndexState>,
    pub(crate) walk: IndexWalk,
    pub(crate) direction: Direction,
    /// Whether one document can have several entries.
    pub(crate) multikey: bool,
    /// Whether the entries contain all requested fields, so that no document is read.
    pub(crate) is_covered: bool,
    /// The bounds of each scan that the walk combines.
    pub(crate) bounds: Vec<ScanBounds>,
}

/// How a plan walks through disjoint ranges.
pub(crate) enum IndexWalk {
    /// In sequence. The ranges are created on demand: a filter may have a million values.
    Sequential(Box<dyn Iterator<Item = KeyRange> + Send>),
    /// All ranges at once, merged in the order of the key parts after a prefix. Each range has the length of its prefix.
    Merged(Vec<(KeyRange, usize)>),
}

impl AccessPath {
    /// Whether the plan reads no documents.
    pub(crate) fn is_covered(&self) -> bool {
        match self {
            AccessPath::Keys(keys) => keys.is_covered,
            AccessPath::Index(index) => index.is_covered,
            AccessPath::Collection(_) | AccessPath::Union(_) => false,
        }
    }
}

impl QueryPlan {
    pub(crate) fn collection_scan(direction: Direction) -> QueryPlan {
        QueryPlan {
            access: AccessPath::Collection(direction),
            is_sorted: false,
            rejected: Vec::new(),
        }
    }
}
