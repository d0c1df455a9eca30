//! Arrays of which only the first elements are in their document, as they are stored and read; `maintain/overflow.rs` writes them.

pub(crate) mod extras;
pub(crate) mod header;
pub(crate) mod order;
pub(crate) mod read;
pub(crate) mod same;
mod walk;

pub(crate) use header::Owner;
pub(crate) use order::unsorted;
pub(crate) use read::{ATTEMPTS, Reading, with_all};
pub(crate) use same::ElementSet;
pub(crate) use walk::Walk;

use crate::schema::OverflowField;

/// How many elements the tail has at most.
pub(crate) fn room_in_tail(field: &OverflowField) -> usize {
    field.after.clamp(8, 500)
}
