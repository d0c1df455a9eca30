use std::collections::VecDeque;
use std::sync::Arc;

use imbl::OrdMap;

use super::KeyRange;
use crate::direction::Direction;

/// The number of entries in the first page. Most readers need few entries, so pages start small and double.
const FIRST_PAGE_ENTRIES: usize = 4;
/// The largest number of entries in a page.
const MAX_PAGE_ENTRIES: usize = 64;

/// The entries of a map in a range, as an iterator that owns the map.
///
/// An iterator borrowed from the map could not be returned together with the map. This iterator seeks again for each page
/// instead.
pub(super) struct PagedEntries<V> {
    map: OrdMap<Arc<[u8]>, V>,
    rest: KeyRange,
    direction: Direction,
    page: VecDeque<(Arc<[u8]>, V)>,
    page_size: usize,
    exhausted: bool,
}

impl<V: Clone> PagedEntries<V> {
    pub(super) fn new(map: OrdMap<Arc<[u8]>, V>, range: KeyRange, direction: Direction) -> Self {
        PagedEntries {
            exhausted: range.is_empty(),
            map,
            rest: range,
            direction,
            page: VecDeque::new(),
            page_size: FIRST_PAGE_ENTRIES,
        }
    }

    fn read_next_page(&mut self) {
        let entries = self.map.range::<_, [u8]>(self.rest.as_bounds());
        let copy = |(key, value): (&Arc<[u8]>, &V)| (Arc::clone(key), value.clone());
        match self.direction {
            Direction::Ascending => self.page.extend(entries.take(self.page_size).map(copy)),
            Direction::Descending => self
                .page
                .extend(entries.rev().take(self.page_size).map(copy)),
        }
        self.exhausted = self.page.len() < self.page_size;
        self.page_size = (self.page_size * 2).min(MAX_PAGE_ENTRIES);
        if let Some((last, _)) = self.page.back() {
            match self.direction {
                Direction::Ascending => {
                    self.rest.start = last.to_vec();
                    self.rest.start.push(0);
                }
                Direction::Descending => self.rest.end = Some(last.to_vec()),
            }
            self.exhausted |= self.rest.is_empty();
        }
    }
}

impl<V: Clone> Iterator for PagedEntries<V> {
    type Item = (Arc<[u8]>, V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty() && !self.exhausted {
            self.read_next_page();
        }
        self.page.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_join_without_gap_or_repetition() {
        let map: OrdMap<Arc<[u8]>, u16> = (0..1000u16)
            .map(|n| (Arc::<[u8]>::from(n.to_be_bytes()), n))
            .collect();
        let range = KeyRange {
            start: 10u16.to_be_bytes().to_vec(),
            end: Some(900u16.to_be_bytes().to_vec()),
        };
        let ascending: Vec<u16> =
            PagedEntries::new(map.clone(), range.clone(), Direction::Ascending)
                .map(|(_, n)| n)
                .collect();
        assert_eq!(ascending, (10..900).collect::<Vec<_>>());
        let descending: Vec<u16> = PagedEntries::new(map, range, Direction::Descending)
            .map(|(_, n)| n)
            .collect();
        assert_eq!(descending, (10..900).rev().collect::<Vec<_>>());
    }
}
