//! Smallest first, or greatest first.

use std::cmp::Ordering;

/// The order of a field in an index, or of a walk through one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Greatest first.
    Descending,
}

impl Direction {
    pub(crate) fn apply(self, order: Ordering) -> Ordering {
        match self {
            Direction::Ascending => order,
            Direction::Descending => order.reverse(),
        }
    }
}
