//! A store in memory: for tests, caches and scratch data.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use imbl::OrdMap;

use super::paged::PagedEntries;
use super::{
    Changes, CommitError, CommitWriter, Entries, KeyRange, LargeCommit, Snapshot, Store,
    StoredBytes,
};
use crate::direction::Direction;
use crate::durability::Durability;
use crate::error::Result;

/// A store on a persistent map: a snapshot is a clone that shares the map's nodes.
#[derive(Default)]
pub(crate) struct MemoryStore {
    state: RwLock<MemoryState>,
    /// Held while a commit replaces the map. A reader only waits for the replacement itself.
    replacement: Mutex<()>,
}

#[derive(Default)]
struct MemoryState {
    map: Map,
    /// The small commits since a large commit began; `None` without a large commit.
    beside_large: Option<Changes>,
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let map = self.lock_state().map.clone();
        Ok(Arc::new(MemorySnapshot { map }))
    }

    fn is_prompt(&self, _change_bytes: usize, _durability: Durability) -> bool {
        true
    }

    fn commit(&self, changes: &Changes, _durability: Durability) -> Result<(), CommitError> {
        let _replacement = self.lock_replacement();
        let mut map = self.lock_state().map.clone();
        map.apply(changes);
        let mut state = self.lock_state_mut();
        state.map = map;
        if let Some(beside_large) = &mut state.beside_large {
            beside_large.extend(changes.clone());
        }
        Ok(())
    }

    fn commit_large(&self, commit: &LargeCommit<'_>) -> Result<(), CommitError> {
        let mut map = {
            let mut state = self.lock_state_mut();
            state.beside_large = Some(Changes::new());
            state.map.clone()
        };
        let written = commit.write_to(&mut map);
        let _replacement = self.lock_replacement();
        let beside_large = self.lock_state_mut().beside_large.take();
        written.map_err(CommitError::Undone)?;
        map.apply(&beside_large.unwrap_or_default());
        self.lock_state_mut().map = map;
        Ok(())
    }
}

impl MemoryStore {
    /// Locks the state, which is consistent at every point where a thread can panic.
    fn lock_state(&self) -> RwLockReadGuard<'_, MemoryState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_replacement(&self) -> MutexGuard<'_, ()> {
        self.replacement
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_state_mut(&self) -> RwLockWriteGuard<'_, MemoryState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Default)]
struct Map(OrdMap<Arc<[u8]>, Arc<[u8]>>);

impl Map {
    fn apply(&mut self, changes: &Changes) {
        for (key, value) in changes {
            match value {
                Some(value) => self.0.insert(Arc::clone(key), Arc::clone(value)),
                None => self.0.remove(key.as_ref()),
            };
        }
    }
}

impl CommitWriter for Map {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key.into(), value.into());
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.0.remove(key);
        Ok(())
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.contains_key(key))
    }

    fn remove_range(&mut self, range: &KeyRange) -> Result<()> {
        let keys: Vec<_> = match range.is_empty() {
            true => Vec::new(),
            false => {
                let entries = self.0.range::<_, [u8]>(range.as_bounds());
                entries.map(|(key, _)| Arc::clone(key)).collect()
            }
        };
        for key in keys {
            self.0.remove(&key);
        }
        Ok(())
    }
}

struct MemorySnapshot {
    map: Map,
}

impl Snapshot for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<StoredBytes>> {
        let value = self.map.0.get(key);
        Ok(value.map(|value| StoredBytes::Shared(Arc::clone(value))))
    }

    fn range(&self, range: KeyRange, direction: Direction) -> Entries {
        let entries = PagedEntries::new(self.map.0.clone(), range, direction);
        Box::new(
            entries.map(|(key, value)| Ok((StoredBytes::Shared(key), StoredBytes::Shared(value)))),
        )
    }
}
