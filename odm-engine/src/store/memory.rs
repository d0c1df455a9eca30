//! A store that is gone with the process: for tests, caches and scratch data.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use imbl::OrdMap;

use super::paged::Paged;
use super::{Bulk, Bytes, Changes, CommitError, Entries, KeyRange, Snapshot, Store, Writer};
use crate::direction::Direction;
use crate::error::Result;

type Map = OrdMap<Arc<[u8]>, Arc<[u8]>>;

/// A persistent map: a snapshot is a clone that shares its nodes.
#[derive(Default)]
pub(crate) struct MemoryStore {
    map: RwLock<Map>,
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let map = self.map().clone();
        Ok(Arc::new(MemorySnapshot { map }))
    }

    fn commit(&self, changes: &Changes, bulk: Bulk<'_>) -> Result<(), CommitError> {
        // Without the lock: `bulk` can take long, and nobody else commits.
        let mut writer = MapWriter(self.map().clone());
        bulk(&mut writer).map_err(CommitError::Undone)?;
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
    /// The map is replaced as a whole, so a writer that panicked has left it consistent.
    fn map(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

struct MapWriter(Map);

impl Writer for MapWriter {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.insert(key.into(), value.into());
        Ok(())
    }

    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.contains_key(key))
    }

    fn remove_range(&mut self, range: &KeyRange) -> Result<()> {
        let keys: Vec<_> = match range.is_empty() {
            true => Vec::new(),
            false => {
                let entries = self.0.range::<_, [u8]>(range.bounds());
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
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.map.get(key);
        Ok(value.map(|value| Bytes::Shared(Arc::clone(value))))
    }

    fn range(&self, range: KeyRange, direction: Direction) -> Entries {
        let entries = Paged::new(self.map.clone(), range, direction);
        Box::new(entries.map(|(key, value)| Ok((Bytes::Shared(key), Bytes::Shared(value)))))
    }
}
