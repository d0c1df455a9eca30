use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use super::paged::Paged;
use super::{Bytes, Changes, Entries, KeyRange, Snapshot};
use crate::direction::Direction;
use crate::error::Result;

/// A snapshot with changes on top of it: what everything above the store reads.
///
/// A clone costs nothing and is frozen.
#[derive(Clone)]
pub(crate) struct View {
    snapshot: Arc<dyn Snapshot>,
    changes: Changes,
    /// How much memory the changes take.
    change_bytes: usize,
}

/// What a change takes in memory beside the bytes of its key and its value: two allocations, and its place in the map.
const CHANGE_OVERHEAD: usize = 128;

impl View {
    pub(crate) fn new(snapshot: Arc<dyn Snapshot>, changes: Changes) -> View {
        View {
            snapshot,
            change_bytes: changes.iter().map(|(key, value)| weight(key, value)).sum(),
            changes,
        }
    }

    /// How much memory the changes take, more or less.
    pub(crate) fn change_bytes(&self) -> usize {
        self.change_bytes
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// An empty set of changes on top of this view.
    pub(crate) fn layer(&self) -> View {
        let base = if self.changes.is_empty() {
            Arc::clone(&self.snapshot)
        } else {
            Arc::new(self.clone())
        };
        View::new(base, Changes::new())
    }

    pub(crate) fn put(&mut self, key: impl Into<Arc<[u8]>>, value: impl Into<Arc<[u8]>>) {
        self.change(key.into(), Some(value.into()));
    }

    pub(crate) fn remove(&mut self, key: impl Into<Arc<[u8]>>) {
        self.change(key.into(), None);
    }

    pub(crate) fn apply(&mut self, changes: &Changes) {
        if self.changes.is_empty() {
            *self = View::new(Arc::clone(&self.snapshot), changes.clone());
            return;
        }
        for (key, value) in changes {
            self.change(Arc::clone(key), value.clone());
        }
    }

    fn change(&mut self, key: Arc<[u8]>, value: Option<Arc<[u8]>>) {
        if let Some(former) = self.changes.get(&key) {
            self.change_bytes = self.change_bytes.saturating_sub(weight(&key, former));
        }
        self.change_bytes += weight(&key, &value);
        self.changes.insert(key, value);
    }
}

fn weight(key: &[u8], value: &Option<Arc<[u8]>>) -> usize {
    let value = value.as_ref().map_or(0, |value| value.len());
    key.len() + value + CHANGE_OVERHEAD
}

impl Snapshot for View {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self.changes.get(key) {
            Some(change) => Ok(change.clone().map(Bytes::Shared)),
            None => self.snapshot.get(key),
        }
    }

    fn range(&self, range: KeyRange, direction: Direction) -> Entries {
        if self.changes.is_empty() {
            return self.snapshot.range(range, direction);
        }
        Box::new(Merged {
            base: self.snapshot.range(range.clone(), direction).peekable(),
            changes: Paged::new(self.changes.clone(), range, direction).peekable(),
            direction,
        })
    }
}

/// Two ordered streams as one, where a change hides the entry with the same key.
struct Merged {
    base: Peekable<Entries>,
    changes: Peekable<Paged<Option<Arc<[u8]>>>>,
    direction: Direction,
}

impl Iterator for Merged {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.base.peek(), self.changes.peek()) {
                (Some(Ok((base, _))), Some((change, _))) => {
                    self.direction.apply(base.as_ref().cmp(change.as_ref()))
                }
                (Some(_), _) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            if order == Ordering::Less {
                return self.base.next();
            }
            if order == Ordering::Equal {
                self.base.next();
            }
            let (key, value) = self.changes.next()?;
            if let Some(value) = value {
                return Some(Ok((Bytes::Shared(key), Bytes::Shared(value))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::store::memory::MemoryStore;

    #[test]
    fn changes_hide_replace_and_add_entries_in_both_directions() {
        let store = MemoryStore::default();
        let mut base = View::new(store.snapshot().unwrap(), Changes::new());
        for key in ["a", "c", "e"] {
            base.put(key.as_bytes(), key.as_bytes());
        }
        store.commit(base.changes(), &|_| Ok(())).unwrap();

        let mut view = View::new(store.snapshot().unwrap(), Changes::new());
        view.put(*b"b", *b"new");
        view.put(*b"c", *b"replaced");
        view.remove(*b"e");
        view.put(*b"f", *b"last");
        let read = |direction| -> Vec<(String, String)> {
            let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
            view.range(KeyRange::prefix(b""), direction)
                .map(|entry| entry.map(|(key, value)| (text(key), text(value))).unwrap())
                .collect()
        };
        let expected = [("a", "a"), ("b", "new"), ("c", "replaced"), ("f", "last")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(read(Direction::Ascending), expected);
        let mut reversed = expected.to_vec();
        reversed.reverse();
        assert_eq!(read(Direction::Descending), reversed);
    }
}
