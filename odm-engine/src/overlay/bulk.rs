//! What a write does to more keys than fit into memory: it is carried out within the commit of the store.

use std::sync::Arc;

use bson::RawDocument;

use super::{entry_key, entry_value};
use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::index::IndexState;
use crate::index::keys::{duplicate_error, keys_of};
use crate::interrupt;
use crate::key::{self, RecordId};
use crate::store::{KeyRange, Snapshot, View, Writer};

/// How many bytes of entries are sorted in memory before they are written. Entries in order cost the store less.
const CHUNK_BYTES: usize = 32 << 20;

/// What an entry takes beside its bytes: two allocations and their places.
const ENTRY_OVERHEAD: usize = 80;

/// The parts of a write that are too many for memory, in their order.
#[derive(Default)]
pub(crate) struct Steps(Vec<Step>);

enum Step {
    /// Removes all keys with a prefix.
    Remove(Vec<u8>),
    /// Adds the entries of an index that has none.
    Fill {
        collection: u32,
        collection_name: String,
        state: Arc<IndexState>,
    },
}

impl Steps {
    pub(super) fn remove(&mut self, prefix: Vec<u8>) {
        self.0.push(Step::Remove(prefix));
    }

    pub(super) fn fill(&mut self, collection: u32, collection_name: &str, state: Arc<IndexState>) {
        self.0.push(Step::Fill {
            collection,
            collection_name: collection_name.to_owned(),
            state,
        });
    }

    /// Carries the steps out, on the documents of `view`.
    ///
    /// # Errors
    /// Duplicate key: the smallest one, as MongoDB meets the keys in their order. What [`keys_of`] refuses.
    pub(crate) fn write(&self, view: &View, writer: &mut dyn Writer) -> Result<()> {
        for step in &self.0 {
            match step {
                Step::Remove(prefix) => writer.remove_range(&KeyRange::prefix(prefix))?,
                Step::Fill {
                    collection,
                    collection_name,
                    state,
                } => fill(*collection, collection_name, state, view, writer)?,
            }
        }
        Ok(())
    }
}

fn fill(
    collection: u32,
    collection_name: &str,
    state: &IndexState,
    view: &View,
    writer: &mut dyn Writer,
) -> Result<()> {
    let mut chunk = Chunk::default();
    let mut multikey = 0;
    for stored in view.range(
        KeyRange::prefix(&key::records(collection)),
        Direction::Ascending,
    ) {
        interrupt::check()?;
        let (key, bytes) = stored?;
        let record = key::trailing_record(&key)?;
        let keys = keys_of(state, RawDocument::from_bytes(&*bytes)?)?;
        multikey |= keys.multikey;
        for key in &keys.keys {
            let value = entry_value(state, &keys.beside, record);
            chunk.add(entry_key(state, key, record), value, record);
        }
        if chunk.bytes >= CHUNK_BYTES {
            chunk.write(state, writer)?;
        }
    }
    chunk.write(state, writer)?;
    if let Some((key, record)) = chunk.duplicate {
        let stored = view.get(&key::record(collection, record))?;
        let document = stored.ok_or_else(|| Error::damaged("a document is missing"))?;
        let document = RawDocument::from_bytes(&*document)?;
        let key = key.strip_prefix(state.prefix.as_slice()).unwrap_or(&key);
        return Err(duplicate_error(collection_name, state, document, key));
    }
    for field in (0..64_u8).filter(|field| multikey & (1 << field) != 0) {
        writer.put(&key::multikey(collection, state.id, field), &[])?;
    }
    Ok(())
}

/// Entries that are not written yet.
#[derive(Default)]
struct Chunk {
    entries: Vec<Entry>,
    bytes: usize,
    /// The smallest key that two documents have, and the second of these.
    duplicate: Option<(Vec<u8>, RecordId)>,
}

struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    record: RecordId,
}

impl Chunk {
    fn add(&mut self, key: Vec<u8>, value: Vec<u8>, record: RecordId) {
        self.bytes += key.capacity() + value.capacity() + ENTRY_OVERHEAD;
        self.entries.push(Entry { key, value, record });
    }

    /// Writes the entries and forgets them.
    fn write(&mut self, state: &IndexState, writer: &mut dyn Writer) -> Result<()> {
        // Of equal keys, the one of the first document comes first.
        self.entries.sort_by(|one, other| one.key.cmp(&other.key));
        for Entry { key, value, record } in self.entries.drain(..) {
            if !state.index.unique || !writer.has(&key)? {
                writer.put(&key, &value)?;
            } else if self
                .duplicate
                .as_ref()
                .is_none_or(|(smallest, _)| key < *smallest)
            {
                self.duplicate = Some((key, record));
            }
        }
        self.bytes = 0;
        Ok(())
    }
}
