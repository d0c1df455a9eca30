//! The entries of a new index: of all documents, and of the documents that have changed since.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use bson::RawDocument;

use super::{entry_key, entry_value};
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::index::IndexState;
use crate::index::keys::{IndexKeys, duplicate_error, keys_of};
use crate::interrupt;
use crate::key::{self, RecordId};
use crate::store::{BulkCallback, CommitWriter, KeyRange, Snapshot, StoreView};

/// How many bytes of entries are sorted in memory before they are written. The store writes sorted entries faster.
const CHUNK_BYTES: usize = 32 << 20;

/// The memory of an entry besides its bytes: two allocations and their places.
const ENTRY_OVERHEAD_BYTES: usize = 80;

/// Writes the entries of an index for all documents of `view`, in several calls of `commit`.
///
/// # Errors
/// Duplicate key: the smallest one, because MongoDB visits keys in order. An error of [`keys_of`], an error of `commit`.
pub(crate) fn fill_index(
    collection: u32,
    collection_name: &str,
    state: &IndexState,
    view: &StoreView,
    commit: &mut dyn FnMut(BulkCallback<'_>) -> Result<()>,
) -> Result<()> {
    let mut chunk = EntryChunk::default();
    let mut duplicate = None;
    let mut multikey = 0;
    for stored in view.range(
        KeyRange::with_prefix(&key::record_prefix(collection)),
        Direction::Ascending,
    ) {
        interrupt::check()?;
        let (key, bytes) = stored?;
        let record = key::trailing_record(&key)?;
        let keys = keys_of(state, RawDocument::from_bytes(&*bytes)?)?;
        multikey |= keys.multikey;
        for key in &keys.keys {
            let value = entry_value(state, &keys.stored_part, record);
            chunk.add(entry_key(state, key, record), value, record);
        }
        if chunk.bytes >= CHUNK_BYTES {
            chunk.write(state, commit, &mut duplicate)?;
        }
    }
    chunk.write(state, commit, &mut duplicate)?;
    if let Some((key, record)) = duplicate {
        let document = key::for_record(collection, record);
        let key = key.strip_prefix(state.prefix.as_slice()).unwrap_or(&key);
        return duplicate_in(collection_name, state, view, &document, key);
    }
    if multikey == 0 {
        return Ok(());
    }
    commit(&|writer| {
        let mut fields = (0..64_u8).filter(|field| multikey & (1 << field) != 0);
        fields
            .try_for_each(|field| writer.put(&key::for_multikey(collection, state.id, field), &[]))
    })
}

/// Changes the entries of an index from the documents of `old` to the documents of `new`. Only the documents under the keys in
/// `changed` can differ.
///
/// # Errors
/// Duplicate key, an error of [`keys_of`].
pub(crate) fn catch_up_index(
    collection: &Collection,
    state: &IndexState,
    old: &StoreView,
    new: &StoreView,
    changed: &BTreeSet<Arc<[u8]>>,
    writer: &mut dyn CommitWriter,
) -> Result<()> {
    let keys_in = |view: &StoreView, key: &[u8]| match view.get(key)? {
        Some(document) => keys_of(state, RawDocument::from_bytes(&*document)?),
        None => Ok(IndexKeys::default()),
    };
    // All old keys before the new keys, because a unique key can move from a document to another document.
    for document in changed {
        interrupt::check()?;
        let (before, after) = (keys_in(old, document)?, keys_in(new, document)?);
        let record = key::trailing_record(document)?;
        for key in before.keys.difference(&after.keys) {
            writer.remove(&entry_key(state, key, record))?;
        }
    }
    for document in changed {
        interrupt::check()?;
        let (before, after) = (keys_in(old, document)?, keys_in(new, document)?);
        let record = key::trailing_record(document)?;
        for key in &after.keys {
            let entry = entry_key(state, key, record);
            let is_own = before.keys.contains(key);
            if state.index.unique && !is_own && writer.contains_key(&entry)? {
                return duplicate_in(&collection.name, state, new, document, key);
            }
            writer.put(&entry, &entry_value(state, &after.stored_part, record))?;
        }
        for field in (0..64_u8).filter(|field| after.multikey & (1 << field) != 0) {
            writer.put(&key::for_multikey(collection.id, state.id, field), &[])?;
        }
    }
    Ok(())
}

/// Returns the error for a key that two documents have. `document` is the key of the second document.
fn duplicate_in(
    collection_name: &str,
    state: &IndexState,
    view: &StoreView,
    document: &[u8],
    key: &[u8],
) -> Result<()> {
    let stored = view.get(document)?;
    let document = stored.ok_or_else(|| Error::damaged("a document is missing"))?;
    let document = RawDocument::from_bytes(&*document)?;
    Err(duplicate_error(collection_name, state, document, key))
}

/// A key that two documents have, and the record of the second document.
type SharedKey = (Vec<u8>, RecordId);

/// Entries that are not written yet.
#[derive(Default)]
struct EntryChunk {
    entries: Vec<ChunkEntry>,
    bytes: usize,
}

struct ChunkEntry {
    key: Vec<u8>,
    value: Vec<u8>,
    record: RecordId,
}

impl EntryChunk {
    fn add(&mut self, key: Vec<u8>, value: Vec<u8>, record: RecordId) {
        self.bytes += key.capacity() + value.capacity() + ENTRY_OVERHEAD_BYTES;
        self.entries.push(ChunkEntry { key, value, record });
    }

    /// Writes the entries and empties the chunk. `duplicate` becomes the smallest key that two documents share.
    fn write(
        &mut self,
        state: &IndexState,
        commit: &mut dyn FnMut(BulkCallback<'_>) -> Result<()>,
        duplicate: &mut Option<SharedKey>,
    ) -> Result<()> {
        // The sort is stable: among equal keys, the entry of the first document comes first.
        self.entries.sort_by(|a, b| a.key.cmp(&b.key));
        let found = RefCell::new(None);
        commit(&|writer| {
            found.replace(None);
            for ChunkEntry { key, value, record } in &self.entries {
                if !state.index.unique || !writer.contains_key(key)? {
                    writer.put(key, value)?;
                } else {
                    // The entries are in order.
                    found.borrow_mut().get_or_insert((key.clone(), *record));
                }
            }
            Ok(())
        })?;
        let smaller = |found: &SharedKey| duplicate.as_ref().is_none_or(|known| found.0 < known.0);
        if let Some(found) = found.into_inner().filter(smaller) {
            *duplicate = Some(found);
        }
        *self = EntryChunk::default();
        Ok(())
    }
}
