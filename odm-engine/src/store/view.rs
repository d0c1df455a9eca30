use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use super::paged::PagedEntries;
use super::{Changes, Entries, KeyRange, Snapshot, StoredBytes};
use crate::direction::Direction;
use crate::error::Result;

/// A snapshot with uncommitted changes on top. Everything above the store reads through a view.
///
/// A clone is cheap and immutable.
#[derive(Clone)]
pub(crate) struct StoreView {
    snapshot: Arc<dyn Snapshot>,
    changes: Changes,
    /// The approximate memory of the changes, in bytes.
    change_bytes: usize,
}

/// The memory of a change besides its key and value, in bytes: two allocations and a place in the map.
const CHANGE_OVERHEAD_BYTES: usize = 128;

impl StoreView {
    pub(crate) fn new(snapshot: Arc<dyn Snapshot>, changes: Changes) -> StoreView {
        StoreView {
            snapshot,
            change_bytes: changes
                .iter()
                .map(|(key, value)| change_size(key.len(), value))
                .sum(),
            changes,
        }
    }

    /// The approximate memory of the changes, in bytes.
    pub(crate) fn change_bytes(&self) -> usize {
        self.change_bytes
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Returns a view with an empty set of changes on top of this view.
    pub(crate) fn new_layer(&self) -> StoreView {
        let base = if self.changes.is_empty() {
            Arc::clone(&self.snapshot)
        } else {
            Arc::new(self.clone())
        };
        StoreView::new(base, Changes::new())
    }

    /// Returns the same state with a verification of every value that has a checksum.
    pub(crate) fn with_verification(&self) -> StoreView {
        let snapshot = self.snapshot.verifying();
        StoreView {
            snapshot: snapshot.unwrap_or_else(|| Arc::clone(&self.snapshot)),
            ..self.clone()
        }
    }

    pub(crate) fn put(&mut self, key: impl Into<Arc<[u8]>>, value: impl Into<Arc<[u8]>>) {
        self.set_change(key.into(), Some(value.into()));
    }

    pub(crate) fn remove(&mut self, key: impl Into<Arc<[u8]>>) {
        self.set_change(key.into(), None);
    }

    pub(crate) fn apply_changes(&mut self, changes: &Changes) {
        if self.changes.is_empty() {
            *self = StoreView::new(Arc::clone(&self.snapshot), changes.clone());
            return;
        }
        for (key, value) in changes {
            self.set_change(Arc::clone(key), value.clone());
        }
    }

    fn set_change(&mut self, key: Arc<[u8]>, value: Option<Arc<[u8]>>) {
        let key_bytes = key.len();
        self.change_bytes += change_size(key_bytes, &value);
        if let Some(previous) = self.changes.insert(key, value) {
            let previous_size = change_size(key_bytes, &previous);
            self.change_bytes = self.change_bytes.saturating_sub(previous_size);
        }
    }
}

fn change_size(key_bytes: usize, value: &Option<Arc<[u8]>>) -> usize {
    let value_bytes = value.as_ref().map_or(0, |value| value.len());
    key_bytes + value_bytes + CHANGE_OVERHEAD_BYTES
}

impl Snapshot for StoreView {
    fn get(&self, key: &[u8]) -> Result<Option<StoredBytes>> {
        match self.changes.get(key) {
            Some(change) => Ok(change.clone().map(StoredBytes::Shared)),
            None => self.snapshot.get(key),
        }
    }

    fn range(&self, range: KeyRange, direction: Direction) -> Entries {
        if range.is_empty()
            || self
                .changes
                .range::<_, [u8]>(range.as_bounds())
                .next()
                .is_none()
        {
            return self.snapshot.range(range, direction);
        }
        Box::new(MergedEntries {
            base: self.snapshot.range(range.clone(), direction).peekable(),
            changes: PagedEntries::new(self.changes.clone(), range, direction).peekable(),
            direction,
        })
    }

    fn verifying(&self) -> Option<Arc<dyn Snapshot>> {
        Some(Arc::new(self.with_verification()))
    }
}

/// Merges two ordered streams of entries. A change hides the base entry with the same key.
struct MergedEntries {
    base: Peekable<Entries>,
    changes: Peekable<PagedEntries<Option<Arc<[u8]>>>>,
    direction: Direction,
}

impl Iterator for MergedEntries {
    type Item = Result<(StoredBytes, StoredBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.base.peek(), self.changes.peek()) {
                (Some(Ok((base, _))), Some((change, _))) => {
                    self.direction.apply_to(base.as_ref().cmp(change.as_ref()))
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
                return Some(Ok((StoredBytes::Shared(key), StoredBytes::Shared(value))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::Durability;
    use crate::store::Store;
    use crate::store::memory::MemoryStore;

    #[test]
    fn changes_hide_replace_and_add_entries_in_both_directions() {
        let store = MemoryStore::default();
        let mut base = StoreView::new(store.snapshot().unwrap(), Changes::new());
        for key in ["a", "c", "e"] {
            base.put(key.as_bytes(), key.as_bytes());
        }
        store.commit(base.changes(), Durability::Full).unwrap();

        let mut view = StoreView::new(store.snapshot().unwrap(), Changes::new());
        view.put(*b"b", *b"new");
        view.put(*b"c", *b"replaced");
        view.remove(*b"e");
        view.put(*b"f", *b"last");
        let read = |direction| -> Vec<(String, String)> {
            let text = |bytes: StoredBytes| String::from_utf8(bytes.to_vec()).unwrap();
            view.range(KeyRange::with_prefix(b""), direction)
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
