use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::direction::Direction;
use crate::error::Result;
use crate::store::{Bytes, Entries, KeyRange, Snapshot, View};

/// Several ranges of an index at once, in the order of what their keys have behind their beginnings.
pub(super) struct Merged {
    /// The next entry of each range that has one.
    heads: BinaryHeap<Head>,
    /// An error that a range began with.
    failure: Option<crate::Error>,
}

struct Head {
    key: Bytes,
    value: Bytes,
    rest: Entries,
    /// How long the beginning of the keys is.
    skipped: usize,
    direction: Direction,
    /// The place of the range among the others, which decides between equal ends.
    range: usize,
}

impl Merged {
    pub(super) fn new(view: &View, ranges: Vec<(KeyRange, usize)>, direction: Direction) -> Merged {
        let mut merged = Merged {
            heads: BinaryHeap::with_capacity(ranges.len()),
            failure: None,
        };
        for (number, (range, skipped)) in ranges.into_iter().enumerate() {
            merged.push(view.range(range, direction), skipped, direction, number);
        }
        merged
    }

    fn push(&mut self, mut rest: Entries, skipped: usize, direction: Direction, range: usize) {
        match rest.next() {
            Some(Ok((key, value))) => self.heads.push(Head {
                key,
                value,
                rest,
                skipped,
                direction,
                range,
            }),
            Some(Err(error)) => self.failure = Some(error),
            None => {}
        }
    }
}

impl Iterator for Merged {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failure.take() {
            self.heads.clear();
            return Some(Err(error));
        }
        let head = self.heads.pop()?;
        self.push(head.rest, head.skipped, head.direction, head.range);
        Some(Ok((head.key, head.value)))
    }
}

impl Head {
    fn end(&self) -> &[u8] {
        self.key.get(self.skipped..).unwrap_or_default()
    }
}

/// The greatest comes first out of a heap: that is the next one.
impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        let order = self.direction.apply(self.end().cmp(other.end()));
        order.then(self.range.cmp(&other.range)).reverse()
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}
