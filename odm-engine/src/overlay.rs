//! Uncommitted changes of one write: documents, with the index entries that follow from them.

mod index_entries;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bson::RawDocument;

use crate::catalog::{Catalog, Collection, check_name};
use crate::change::{ChangeEvent, ModifiedDocument};
use crate::direction::Direction;
use crate::document;
use crate::error::{Error, Result, code};
use crate::index::keys::{IndexKeys, duplicate_error, keys_of};
use crate::index::{ID_INDEX, Index, IndexState};
use crate::key::{self, RecordId};
use crate::store::{Changes, CommitWriter, KeyRange, Snapshot, StoreView};
use crate::value;

pub(crate) use index_entries::{catch_up_index, fill_index};

/// The maximum memory for the changes of one write or transaction, in bytes. A larger write has to be split.
pub(crate) const MAX_WRITE_BYTES: usize = 512 << 20;

/// How many keys of a dropped index or collection are removed together with its definition. More keys are removed later.
const MAX_REMOVED_AT_ONCE: usize = 500;

/// Uncommitted changes on top of a state of the database.
///
/// Each method makes its changes completely, or changes nothing if it fails.
pub(crate) struct WriteOverlay {
    view: StoreView,
    catalog: Catalog,
    next_collection: Arc<AtomicU32>,
    written: BTreeSet<String>,
    /// The prefixes of the documents of collections that lose keys.
    emptied: Vec<Vec<u8>>,
    /// `None` if the change log is off.
    events: Option<Vec<ChangeEvent>>,
    /// The memory of the events, in bytes.
    event_bytes: usize,
    /// The maximum memory for changes and events, in bytes.
    max_bytes: usize,
    /// `None` outside of a transaction, where no conflict is possible.
    conflict_check: Option<ConflictCheck>,
}

/// A check whether a key may be changed. The error is a write conflict with a concurrent writer.
pub(crate) type ConflictCheck = Box<dyn Fn(&[u8]) -> Result<()>>;

/// The state of an overlay at an earlier time.
pub(crate) struct Savepoint {
    view: StoreView,
    catalog: Catalog,
    written: BTreeSet<String>,
    events: Option<usize>,
    event_bytes: usize,
}

/// The result of an overlay.
pub(crate) struct OverlayOutcome {
    pub(crate) changes: Changes,
    /// The collections whose definitions the changes rely on.
    pub(crate) written: BTreeSet<String>,
    /// The prefixes of the documents of collections that the changes empty, or remove an index of. A concurrent write of such a document
    /// would leave keys that belong to nothing.
    pub(crate) emptied: Vec<Vec<u8>>,
    /// The events in order, if the change log is on.
    pub(crate) events: Vec<ChangeEvent>,
    /// The memory of the events, in bytes.
    pub(crate) event_bytes: usize,
}

impl WriteOverlay {
    pub(crate) fn new(
        base: &StoreView,
        catalog: Catalog,
        next_collection: Arc<AtomicU32>,
        is_logged: bool,
    ) -> WriteOverlay {
        WriteOverlay {
            view: base.new_layer(),
            catalog,
            next_collection,
            written: BTreeSet::new(),
            emptied: Vec::new(),
            events: is_logged.then(Vec::new),
            event_bytes: 0,
            max_bytes: MAX_WRITE_BYTES,
            conflict_check: None,
        }
    }

    /// Reduces the memory limit by `bytes`, the memory of earlier writes in the same transaction.
    pub(crate) fn with_used_bytes(self, bytes: usize) -> WriteOverlay {
        WriteOverlay {
            max_bytes: self.max_bytes.saturating_sub(bytes),
            ..self
        }
    }

    /// Runs `check` before a document changes and before a unique key is taken.
    ///
    /// As on MongoDB, a write then fails with the conflict, and not with an error about the document's new keys.
    pub(crate) fn with_conflict_check(self, check: ConflictCheck) -> WriteOverlay {
        WriteOverlay {
            conflict_check: Some(check),
            ..self
        }
    }

    /// The approximate memory of the changes, in bytes.
    pub(crate) fn change_bytes(&self) -> usize {
        self.view.change_bytes() + self.event_bytes
    }

    pub(crate) fn finish(self) -> OverlayOutcome {
        OverlayOutcome {
            changes: self.view.changes().clone(),
            written: self.written,
            emptied: self.emptied,
            events: self.events.unwrap_or_default(),
            event_bytes: self.event_bytes,
        }
    }

    /// Returns a state to restore if a later step fails. A savepoint is cheap: views and catalogs share their content.
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            view: self.view.clone(),
            catalog: self.catalog.clone(),
            written: self.written.clone(),
            events: self.events.as_ref().map(Vec::len),
            event_bytes: self.event_bytes,
        }
    }

    /// Drops all changes since a savepoint.
    pub(crate) fn restore_savepoint(&mut self, before: Savepoint) {
        self.view = before.view;
        self.catalog = before.catalog;
        self.written = before.written;
        self.event_bytes = before.event_bytes;
        if let (Some(events), Some(len)) = (&mut self.events, before.events) {
            events.truncate(len);
        }
    }

    pub(crate) fn view(&self) -> &StoreView {
        &self.view
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn collection(&self, name: &str) -> Option<Arc<Collection>> {
        self.catalog.get(name).cloned()
    }

    pub(crate) fn collection_or_create(&mut self, name: &str) -> Result<Arc<Collection>> {
        if let Some(collection) = self.collection(name) {
            return Ok(collection);
        }
        check_name(name)?;
        let id = self.next_collection.fetch_add(1, Ordering::Relaxed);
        let collection = Arc::new(Collection::new(id, name, self.catalog.policy().clone()));
        self.put_definition(&collection);
        Ok(collection)
    }

    /// Adds a document returned by [`document::prepare_for_storage`].
    ///
    /// # Errors
    /// Duplicate key; an error of [`keys_of`]; write conflict; write too large.
    pub(crate) fn insert(&mut self, collection: &Collection, document: &RawDocument) -> Result<()> {
        self.check_room()?;
        let mut entries = Vec::with_capacity(collection.indexes.len());
        let mut bytes = 0;
        for state in &collection.indexes {
            let keys = keys_of(state, document)?;
            bytes += keys.memory_bytes();
            self.check_room_for(bytes)?;
            self.ensure_no_duplicates(collection, state, document, keys.keys.iter(), None)?;
            entries.push((state, keys));
        }
        let record = collection.allocate_record();
        for (state, keys) in entries {
            self.mark_multikey(collection, state, &keys)?;
            for key in keys.keys {
                self.put_entry(state, key, &keys.stored_part, record);
            }
        }
        let bytes = document.as_bytes();
        self.view.put(key::for_record(collection.id, record), bytes);
        self.mark_written(collection);
        self.log_event(|| ChangeEvent::for_insert(&collection.name, document))
    }

    /// Replaces a document by a new version with the same `_id`.
    ///
    /// # Errors
    /// Document too large; write conflict; duplicate key; an error of [`keys_of`]; write too large.
    pub(crate) fn replace(
        &mut self,
        collection: &Collection,
        record: RecordId,
        old: &RawDocument,
        modified: &ModifiedDocument,
    ) -> Result<()> {
        let new = &*modified.document;
        let event = || ChangeEvent::for_modification(&collection.name, old, modified);
        self.check_room()?;
        document::check_size(new, code::UPDATE_TOO_LARGE)?;
        self.check_contention(&key::for_record(collection.id, record))?;
        if old.as_bytes() == new.as_bytes() {
            // As on MongoDB, a modification without a difference is still logged, and still conflicts with other writers.
            self.view
                .put(key::for_record(collection.id, record), new.as_bytes());
            self.mark_written(collection);
            return self.log_event(event);
        }
        let changed_fields = value::changed_fields(old, new);
        let is_affected = |state: &&Arc<IndexState>| {
            let changed = changed_fields.as_ref();
            changed.is_none_or(|changed| state.is_affected(old, new, changed))
        };
        let mut entries = Vec::with_capacity(collection.indexes.len());
        let mut bytes = 0;
        for state in collection.indexes.iter().filter(is_affected) {
            let (before, after) = (keys_of(state, old)?, keys_of(state, new)?);
            bytes += before.memory_bytes() + after.memory_bytes();
            self.check_room_for(bytes)?;
            let added = after.keys.difference(&before.keys);
            self.ensure_no_duplicates(collection, state, new, added, Some(record))?;
            entries.push((state, before, after));
        }
        for (state, before, after) in entries {
            self.mark_multikey(collection, state, &after)?;
            for key in before.keys.difference(&after.keys) {
                self.view.remove(entry_key(state, key, record));
            }
            // The document part of an unchanged key may be different now.
            let is_stale = |key: &Vec<u8>| {
                after.stored_part != before.stored_part || !before.keys.contains(key)
            };
            for key in after.keys.iter().filter(|key| is_stale(key)) {
                self.put_entry(state, key.clone(), &after.stored_part, record);
            }
        }
        let bytes = new.as_bytes();
        self.view.put(key::for_record(collection.id, record), bytes);
        self.mark_written(collection);
        self.log_event(event)
    }

    /// Removes a document.
    ///
    /// # Errors
    /// Write conflict; an error of [`keys_of`]; write too large.
    pub(crate) fn remove(
        &mut self,
        collection: &Collection,
        record: RecordId,
        document: &RawDocument,
    ) -> Result<()> {
        self.check_room()?;
        let stored = key::for_record(collection.id, record);
        self.check_contention(&stored)?;
        for state in &collection.indexes {
            for key in keys_of(state, document)?.keys {
                self.view.remove(entry_key(state, &key, record));
            }
        }
        self.view.remove(stored);
        self.mark_written(collection);
        self.log_event(|| ChangeEvent::for_delete(&collection.name, document))
    }

    /// Adds an index to the definition of a collection, without entries for existing documents.
    ///
    /// # Errors
    /// The definition cannot be read.
    pub(crate) fn add_index(
        &mut self,
        collection: &Collection,
        index: Index,
    ) -> Result<Arc<IndexState>> {
        let (collection, state) = collection.with_index(index)?;
        self.put_definition(&Arc::new(collection));
        Ok(state)
    }

    /// Adds the entries of new indexes for existing documents.
    ///
    /// # Errors
    /// Duplicate key, an error of [`keys_of`], write too large.
    pub(crate) fn fill_indexes(
        &mut self,
        collection: &Collection,
        indexes: &[Arc<IndexState>],
    ) -> Result<()> {
        let documents = self.view.clone();
        for state in indexes {
            fill_index(
                collection.id,
                &collection.name,
                state,
                &documents,
                &mut |write| write(self),
            )?;
        }
        self.check_room()
    }

    /// Records in the definition that the entries of an index follow the current collation rules.
    ///
    /// # Errors
    /// The definition cannot be read.
    pub(crate) fn set_current_rules(
        &mut self,
        collection: &Collection,
        state: &IndexState,
    ) -> Result<()> {
        let collection = collection.with_rules(state.id, state.current_rules())?;
        self.put_definition(&Arc::new(collection));
        Ok(())
    }

    /// Changes the definition of an index in a way that does not affect its entries.
    ///
    /// # Errors
    /// The definition cannot be read.
    pub(crate) fn redefine_index(
        &mut self,
        collection: &Collection,
        id: u32,
        change: impl FnOnce(&mut Index),
    ) -> Result<()> {
        self.put_definition(&Arc::new(collection.with_changed_index(id, change)?));
        Ok(())
    }

    /// Removes an index. Marks its entries for removal.
    ///
    /// # Errors
    /// I/O, damaged.
    pub(crate) fn drop_index(&mut self, collection: &Collection, state: &IndexState) -> Result<()> {
        let prefixes = [
            state.prefix.clone(),
            key::multikey_prefix(collection.id, state.id),
        ];
        self.mark_for_removal(collection, &prefixes)?;
        self.put_definition(&Arc::new(collection.without_index(state.id)));
        Ok(())
    }

    /// Removes a collection. Marks its documents and indexes for removal.
    ///
    /// # Errors
    /// I/O, damaged.
    pub(crate) fn drop_collection(&mut self, collection: &Collection) -> Result<()> {
        self.mark_for_removal(collection, &key::collection_prefixes(collection.id))?;
        self.view.remove(key::for_catalog(&collection.name));
        self.catalog.remove(&collection.name);
        self.mark_written(collection);
        self.log_event(|| ChangeEvent::for_drop(&collection.name))
    }

    /// Replaces a collection by an empty collection with the same indexes. Creates the collection if it does not exist.
    ///
    /// # Errors
    /// An invalid name; an index that cannot be read; I/O, damaged.
    pub(crate) fn empty_collection(&mut self, name: &str) -> Result<Arc<Collection>> {
        let indexes = match self.collection(name) {
            None => Vec::new(),
            Some(before) => {
                self.drop_collection(&before)?;
                let own = before.indexes.iter().filter(|state| state.id != ID_INDEX);
                own.map(|state| state.index.clone()).collect()
            }
        };
        let mut collection = self.collection_or_create(name)?;
        for index in indexes {
            collection = Arc::new(collection.with_index(index)?.0);
        }
        self.put_definition(&collection);
        Ok(collection)
    }

    /// Removes the keys of a collection with these prefixes if they are few, and otherwise marks them for removal after this write.
    fn mark_for_removal(&mut self, collection: &Collection, prefixes: &[Vec<u8>]) -> Result<()> {
        self.emptied.push(key::record_prefix(collection.id));
        let mut keys = Vec::new();
        for prefix in prefixes {
            let range = KeyRange::with_prefix(prefix);
            for entry in self.view.range(range, Direction::Ascending) {
                keys.push(entry?.0.to_vec());
                if keys.len() > MAX_REMOVED_AT_ONCE {
                    self.put_removal_marks(prefixes);
                    return Ok(());
                }
            }
        }
        for key in keys {
            self.view.remove(key);
        }
        Ok(())
    }

    /// Marks the keys with these prefixes for removal.
    pub(crate) fn put_removal_marks(&mut self, prefixes: &[Vec<u8>]) {
        for prefix in prefixes {
            self.view.put(key::for_removal(prefix), []);
        }
    }

    /// Takes back a mark for removal.
    pub(crate) fn remove_removal_mark(&mut self, prefix: &[u8]) {
        self.view.remove(key::for_removal(prefix));
    }

    fn put_definition(&mut self, collection: &Arc<Collection>) {
        let definition = collection.encode_definition();
        self.view
            .put(key::for_catalog(&collection.name), definition.as_bytes());
        self.catalog.insert(Arc::clone(collection));
        self.mark_written(collection);
    }

    fn log_event(&mut self, event: impl FnOnce() -> Result<ChangeEvent>) -> Result<()> {
        if let Some(events) = &mut self.events {
            let event = event()?;
            self.event_bytes += event.as_bytes().len() + size_of::<ChangeEvent>();
            events.push(event);
        }
        Ok(())
    }

    /// Refuses a write whose changes do not fit into memory.
    fn check_room(&self) -> Result<()> {
        self.check_room_for(0)
    }

    fn check_room_for(&self, additional: usize) -> Result<()> {
        if self.change_bytes() + additional > self.max_bytes {
            return Err(Error::write_too_large(MAX_WRITE_BYTES));
        }
        Ok(())
    }

    fn mark_written(&mut self, collection: &Collection) {
        if !self.written.contains(&collection.name) {
            self.written.insert(collection.name.clone());
        }
    }

    fn ensure_no_duplicates<'k>(
        &self,
        collection: &Collection,
        state: &IndexState,
        document: &RawDocument,
        keys: impl Iterator<Item = &'k Vec<u8>>,
        record: Option<RecordId>,
    ) -> Result<()> {
        if !state.index.unique {
            return Ok(());
        }
        for key in keys {
            let entry = concat_key(&state.prefix, key);
            let existing = self.view.get(&entry)?;
            let existing = existing
                .map(|bytes| key::trailing_record(&bytes))
                .transpose()?;
            if existing.is_some() && existing != record {
                return Err(duplicate_error(&collection.name, state, document, key));
            }
            self.check_contention(&entry)?;
        }
        Ok(())
    }

    fn check_contention(&self, key: &[u8]) -> Result<()> {
        self.conflict_check
            .as_ref()
            .map_or(Ok(()), |check| check(key))
    }

    fn mark_multikey(
        &mut self,
        collection: &Collection,
        state: &IndexState,
        keys: &IndexKeys,
    ) -> Result<()> {
        let fields = (0..64_u8).filter(|field| keys.multikey & (1 << field) != 0);
        for field in fields {
            let key = key::for_multikey(collection.id, state.id, field);
            if self.view.get(&key)?.is_none() {
                self.view.put(key, []);
            }
        }
        Ok(())
    }

    fn put_entry(
        &mut self,
        state: &IndexState,
        key: Vec<u8>,
        stored_part: &[u8],
        record: RecordId,
    ) {
        let value = entry_value(state, stored_part, record);
        self.view.put(entry_key(state, &key, record), value);
    }
}

/// The changes of index entries.
impl CommitWriter for WriteOverlay {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.view.put(key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.view.remove(key);
        Ok(())
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.view.get(key)?.is_some())
    }

    fn remove_range(&mut self, range: &KeyRange) -> Result<()> {
        let entries = self.view.clone().range(range.clone(), Direction::Ascending);
        for entry in entries {
            self.view.remove(&*entry?.0);
        }
        Ok(())
    }
}

/// Returns the error for an index that does not exist.
pub(crate) fn index_not_found(name: &str) -> Error {
    Error::with_server_code(
        code::INDEX_NOT_FOUND,
        format!("index not found with name [{name}]"),
    )
}

/// Returns the key of an index entry for a document under `key`.
pub(crate) fn entry_key(state: &IndexState, key: &[u8], record: RecordId) -> Vec<u8> {
    let mut entry = concat_key(&state.prefix, key);
    if !state.index.unique {
        entry.extend_from_slice(&record.to_be_bytes());
    }
    entry
}

/// Returns the value of an index entry for a document.
fn entry_value(state: &IndexState, stored_part: &[u8], record: RecordId) -> Vec<u8> {
    let mut value = Vec::with_capacity(stored_part.len() + size_of::<RecordId>());
    value.extend_from_slice(stored_part);
    if state.index.unique {
        value.extend_from_slice(&record.to_be_bytes());
    }
    value
}

fn concat_key(prefix: &[u8], key: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(prefix.len() + key.len() + size_of::<RecordId>());
    joined.extend_from_slice(prefix);
    joined.extend_from_slice(key);
    joined
}
