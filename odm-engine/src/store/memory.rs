//! A store that is gone with the process: for tests, caches and scratch data.

use std::sync::{Arc, PoisonError, RwLock};

use imbl::OrdMap;

use super::paged::Paged;
use super::{Bytes, Changes, Entries, KeyRange, Snapshot, Store};
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
        // The map is replaced as a whole, so a writer that panicked has left it consistent.
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::new(MemorySnapshot { map: map.clone() }))
    }

    fn commit(&self, changes: &Changes) -> Result<()> {
        let mut current = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let mut map = current.clone();
        for (key, value) in changes {
            match value {
                Some(value) => map.insert(Arc::clone(key), Arc::clone(value)),
                None => map.remove(key.as_ref()),
            };
        }
        *current = map;
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
