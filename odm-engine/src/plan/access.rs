use std::sync::Arc;

use crate::index::{Direction, IndexState};
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
    /// The documents with these encoded `_id`s, in their order.
    Ids(Vec<Vec<u8>>),
    /// The documents with entries in some ranges of an index.
    Index {
        state: Arc<IndexState>,
        /// Disjoint, in the order in which they are walked.
        ranges: Vec<KeyRange>,
        direction: Direction,
        /// Whether one document can have several entries.
        multikey: bool,
    },
}

impl Plan {
    pub(crate) fn collection_scan() -> Plan {
        Plan {
            access: Access::Collection,
            is_sorted: false,
        }
    }
}
