use std::collections::VecDeque;
use std::sync::Arc;

use imbl::OrdMap;

use super::KeyRange;
use crate::direction::Direction;

/// How many entries are copied out of the map at a time: few at first, as most readers want few.
const FIRST_PAGE: usize = 4;
const LAST_PAGE: usize = 64;

/// The entries of a map in a range, as an iterator that owns the map.
///
/// An iterator of the map itself would borrow it, so this one finds its place again for each page.
pub(super) struct Paged<V> {
    map: OrdMap<Arc<[u8]>, V>,
    rest: KeyRange,
    direction: Direction,
    page: VecDeque<(Arc<[u8]>, V)>,
    page_size: usize,
    exhausted: bool,
}

impl<V: Clone> Paged<V> {
    pub(super) fn new(map: OrdMap<Arc<[u8]>, V>, range: KeyRange, direction: Direction) -> Self {
        Paged {
            exhausted: range.is_empty(),
            map,
            rest: range,
            direction,
            page: VecDeque::new(),
            page_size: FIRST_PAGE,
        }
    }

    fn turn_page(&mut self) {
        let entries = self.map.range::<_, [u8]>(self.rest.bounds());
        let copy = |(key, value): (&Arc<[u8]>, &V)| (Arc::clone(key), value.clone());
        match self.direction {
            Direction::Ascending => self.page.extend(entries.take(self.page_size).map(copy)),
            Direction::Descending => self
                .page
                .extend(entries.rev().take(self.page_size).map(copy)),
        }
        self.exhausted = self.page.len() < self.page_size;
        self.page_size = (self.page_size * 2).min(LAST_PAGE);
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

impl<V: Clone> Iterator for Paged<V> {
    type Item = (Arc<[u8]>, V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty() && !self.exhausted {
            self.turn_page();
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
        let up: Vec<u16> = Paged::new(map.clone(), range.clone(), Direction::Ascending)
            .map(|(_, n)| n)
            .collect();
        assert_eq!(up, (10..900).collect::<Vec<_>>());
        let down: Vec<u16> = Paged::new(map, range, Direction::Descending)
            .map(|(_, n)| n)
            .collect();
        assert_eq!(down, (10..900).rev().collect::<Vec<_>>());
    }
}
