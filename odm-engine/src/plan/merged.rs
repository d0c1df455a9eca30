use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::direction::Direction;
use crate::error::Result;
use crate::store::{Entries, KeyRange, Snapshot, StoreView, StoredBytes};

/// Merges several ranges of an index, in the order of the key parts after each range's prefix.
pub(super) struct MergedRanges {
    /// The next entry of each range that is not exhausted.
    heads: BinaryHeap<RangeHead>,
    /// The error of a range.
    failure: Option<crate::Error>,
}

struct RangeHead {
    key: StoredBytes,
    value: StoredBytes,
    rest: Entries,
    /// The length of the prefix that the order ignores, in bytes.
    prefix_len: usize,
    direction: Direction,
    /// The position of the range, which decides between equal key parts.
    range: usize,
}

impl MergedRanges {
    pub(super) fn new(
        view: &StoreView,
        ranges: Vec<(KeyRange, usize)>,
        direction: Direction,
    ) -> MergedRanges {
        let mut merged = MergedRanges {
            heads: BinaryHeap::with_capacity(ranges.len()),
            failure: None,
        };
        for (number, (range, skipped)) in ranges.into_iter().enumerate() {
            merged.push_head(view.range(range, direction), skipped, direction, number);
        }
        merged
    }

    fn push_head(&mut self, mut rest: Entries, skipped: usize, direction: Direction, range: usize) {
        match rest.next() {
            Some(Ok((key, value))) => self.heads.push(RangeHead {
                key,
                value,
                rest,
                prefix_len: skipped,
                direction,
                range,
            }),
            Some(Err(error)) => self.failure = Some(error),
            None => {}
        }
    }
}

impl Iterator for MergedRanges {
    type Item = Result<(StoredBytes, StoredBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failure.take() {
            self.heads.clear();
            return Some(Err(error));
        }
        let head = self.heads.pop()?;
        self.push_head(head.rest, head.prefix_len, head.direction, head.range);
        Some(Ok((head.key, head.value)))
    }
}

impl RangeHead {
    fn key_suffix(&self) -> &[u8] {
        self.key.get(self.prefix_len..).unwrap_or_default()
    }
}

/// A heap pops its greatest element first, so the next entry must be the greatest.
impl Ord for RangeHead {
    fn cmp(&self, other: &RangeHead) -> Ordering {
        let order = self
            .direction
            .apply_to(self.key_suffix().cmp(other.key_suffix()));
        order.then(self.range.cmp(&other.range)).reverse()
    }
}

impl PartialOrd for RangeHead {
    fn partial_cmp(&self, other: &RangeHead) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RangeHead {
    fn eq(&self, other: &RangeHead) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RangeHead {}
