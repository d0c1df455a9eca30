//! Overflow arrays as they are stored and read. The write path of overflow arrays is in `maintain`.

pub(crate) mod capacity;
pub(crate) mod chunks;
pub(crate) mod element_search;
pub(crate) mod element_set;
pub(crate) mod manifest;
pub(crate) mod order;
pub(crate) mod read;
mod spilled_cursor;

pub(crate) use element_set::ElementSet;
pub(crate) use manifest::ArrayState;
pub(crate) use order::unsorted_filter;
pub(crate) use read::{ArrayReader, MAX_READ_ATTEMPTS, with_all_elements};
pub(crate) use spilled_cursor::SpilledCursor;

use crate::schema::OverflowField;

/// Returns the maximum number of elements in the tail buffer.
pub(crate) fn max_tail_elements(field: &OverflowField) -> usize {
    field.max_resident.clamp(8, 500)
}
