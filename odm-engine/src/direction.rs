//! Sort directions: ascending and descending.

use std::cmp::Ordering;

/// The direction of a field in an index or a sort, or of an index scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The smallest value first.
    Ascending,
    /// The greatest value first.
    Descending,
}

impl Direction {
    pub(crate) fn apply_to(self, order: Ordering) -> Ordering {
        match self {
            Direction::Ascending => order,
            Direction::Descending => order.reverse(),
        }
    }
}
