//! A store in memory: for tests, caches and scratch data.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use imbl::OrdMap;

use super::paged::PagedEntries;
use super::{
    BulkCallback, Changes, CommitError, CommitWriter, Entries, KeyRange, Snapshot, Store,
    StoredBytes,
};
use crate::direction::Direction;
use crate::error::Result;

type Map = OrdMap<Arc<[u8]>, Arc<[u8]>>;

/// A store on a persistent map: a snapshot is a clone that shares the map's nodes.
#[derive(Default)]
pub(crate) struct MemoryStore {
    map: RwLock<Map>,
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let map = self.lock_map().clone();
        Ok(Arc::new(MemorySnapshot { map }))
    }

    fn is_prompt(&self, _change_bytes: usize) -> bool {
        true
    }

    fn commit(&self, changes: &Changes, bulk: Option<BulkCallback<'_>>) -> Result<(), CommitError> {
        // No lock is held during `bulk`, which may take long. There is only one committer, so the map cannot change meanwhile.
        let mut writer = MapWriter(self.lock_map().clone());
        if let Some(bulk) = bulk {
            bulk(&mut writer).map_err(CommitError::Undone)?;
        }
        let MapWriter(mut map) = writer;
        for (key, value) in changes {
            match value {
                Some(value) => map.insert(Arc::clone(key), Arc::clone(value)),
                None => map.remove(key.as_ref()),
            };
        }
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
        Ok(())
    }
}

impl MemoryStore {
    /// Locks the map. A writer replaces the whole map at once, so the map is consistent after a panic.
    fn lock_map(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

struct MapWriter(Map);

impl CommitWriter for MapWriter {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key.into(), value.into());
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
        let value = self.map.get(key);
        Ok(value.map(|value| StoredBytes::Shared(Arc::clone(value))))
    }

    fn range(&self, range: KeyRange, direction: Direction) -> Entries {
        let entries = PagedEntries::new(self.map.clone(), range, direction);
        Box::new(
            entries.map(|(key, value)| Ok((StoredBytes::Shared(key), StoredBytes::Shared(value)))),
        )
    }
}
