//! What one write sees and changes: documents, with the index entries that follow from them.

mod bulk;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bson::RawDocument;

use crate::catalog::{Catalog, Collection, check_name};
use crate::change::{Event, Modified};
use crate::document;
use crate::error::{Error, Result, code};
use crate::index::keys::{Keys, duplicate_error, keys_of};
use crate::index::{ID_INDEX, Index, IndexState};
use crate::key::{self, RecordId};
use crate::store::{Changes, Snapshot, View};
use crate::value;

pub(crate) use bulk::Steps;

/// How much memory the changes of one write, or of one transaction, may take. What is larger can be written in parts.
pub(crate) const MAX_WRITE_BYTES: usize = 512 << 20;

/// Changes on top of a state of the database, not yet committed.
///
/// Each method makes its changes completely or, if it fails, not at all.
pub(crate) struct Overlay {
    view: View,
    catalog: Catalog,
    next_collection: Arc<AtomicU32>,
    written: BTreeSet<String>,
    /// None where no log is kept.
    events: Option<Vec<Event>>,
    /// How much memory the events take.
    event_bytes: usize,
    /// How much memory changes and events may take.
    max_bytes: usize,
    /// None where nobody can be in the way.
    contend: Option<Contend>,
}

/// Says whether a key may be changed: the error is a write conflict with another transaction.
pub(crate) type Contend = Box<dyn Fn(&[u8]) -> Result<()>>;

/// What an overlay held at some point.
pub(crate) struct Savepoint {
    view: View,
    catalog: Catalog,
    written: BTreeSet<String>,
    events: Option<usize>,
    event_bytes: usize,
}

/// What an overlay leaves behind.
pub(crate) struct Outcome {
    pub(crate) changes: Changes,
    /// The collections whose definitions the changes rely on.
    pub(crate) written: BTreeSet<String>,
    /// What happened, in order, if a log is kept.
    pub(crate) events: Vec<Event>,
    /// How much memory the events take.
    pub(crate) event_bytes: usize,
}

impl Overlay {
    pub(crate) fn new(
        base: &View,
        catalog: Catalog,
        next_collection: Arc<AtomicU32>,
        is_logged: bool,
    ) -> Overlay {
        Overlay {
            view: base.layer(),
            catalog,
            next_collection,
            written: BTreeSet::new(),
            events: is_logged.then(Vec::new),
            event_bytes: 0,
            max_bytes: MAX_WRITE_BYTES,
            contend: None,
        }
    }

    /// Takes so many bytes less than another write, as earlier ones of its transaction take them.
    pub(crate) fn beside(self, bytes: usize) -> Overlay {
        Overlay {
            max_bytes: self.max_bytes.saturating_sub(bytes),
            ..self
        }
    }

    /// Asks `contend` about a document before it is changed, and about a unique key before it is
    /// taken. As on MongoDB, the conflict is then what a write fails with, rather than what would be
    /// wrong with the document's new keys.
    pub(crate) fn contending(self, contend: Contend) -> Overlay {
        Overlay {
            contend: Some(contend),
            ..self
        }
    }

    pub(crate) fn finish(self) -> Outcome {
        Outcome {
            changes: self.view.changes().clone(),
            written: self.written,
            events: self.events.unwrap_or_default(),
            event_bytes: self.event_bytes,
        }
    }

    /// Where to go back to if what comes next fails half-way. It costs little: views and catalogs share what they hold.
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            view: self.view.clone(),
            catalog: self.catalog.clone(),
            written: self.written.clone(),
            events: self.events.as_ref().map(Vec::len),
            event_bytes: self.event_bytes,
        }
    }

    /// Forgets what was changed since.
    pub(crate) fn restore(&mut self, before: Savepoint) {
        self.view = before.view;
        self.catalog = before.catalog;
        self.written = before.written;
        self.event_bytes = before.event_bytes;
        if let (Some(events), Some(len)) = (&mut self.events, before.events) {
            events.truncate(len);
        }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
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
        self.define(&collection);
        Ok(collection)
    }

    /// Adds a document that [`document::prepare`] has returned.
    ///
    /// # Errors
    /// Duplicate key; what [`keys_of`] refuses; write conflict; write too large.
    pub(crate) fn insert(&mut self, collection: &Collection, document: &RawDocument) -> Result<()> {
        self.check_room()?;
        let mut entries = Vec::with_capacity(collection.indexes.len());
        let mut bytes = 0;
        for state in &collection.indexes {
            let keys = keys_of(state, document)?;
            bytes += keys.bytes();
            self.check_room_for(bytes)?;
            self.refuse_duplicates(collection, state, document, keys.keys.iter(), None)?;
            entries.push((state, keys));
        }
        let record = collection.allocate_record();
        for (state, keys) in entries {
            self.mark_multikey(collection, state, &keys)?;
            for key in keys.keys {
                self.put_entry(state, key, &keys.beside, record);
            }
        }
        let bytes = document.as_bytes();
        self.view.put(key::record(collection.id, record), bytes);
        self.touch(collection);
        self.log(|| Event::insert(&collection.name, document))
    }

    /// Puts a document in the place of one with the same `_id`.
    ///
    /// # Errors
    /// Too large a document; write conflict; duplicate key; what [`keys_of`] refuses; write too large.
    pub(crate) fn replace(
        &mut self,
        collection: &Collection,
        record: RecordId,
        old: &RawDocument,
        modified: &Modified,
    ) -> Result<()> {
        let new = &*modified.document;
        let event = || Event::modify(&collection.name, old, modified);
        self.check_room()?;
        document::check_size(new, code::UPDATE_TOO_LARGE)?;
        self.check_contention(&key::record(collection.id, record))?;
        if old.as_bytes() == new.as_bytes() {
            // As on MongoDB, what counts as modified is told and stands in the way of others, be it the same.
            self.view
                .put(key::record(collection.id, record), new.as_bytes());
            self.touch(collection);
            return self.log(event);
        }
        let mut entries = Vec::with_capacity(collection.indexes.len());
        let mut bytes = 0;
        for state in &collection.indexes {
            if state.id == ID_INDEX && value::identical(document::id(old)?, document::id(new)?) {
                continue;
            }
            let (before, after) = (keys_of(state, old)?, keys_of(state, new)?);
            bytes += before.bytes() + after.bytes();
            self.check_room_for(bytes)?;
            let added = after.keys.difference(&before.keys);
            self.refuse_duplicates(collection, state, new, added, Some(record))?;
            entries.push((state, before, after));
        }
        for (state, before, after) in entries {
            self.mark_multikey(collection, state, &after)?;
            for key in before.keys.difference(&after.keys) {
                self.view.remove(entry_key(state, key, record));
            }
            // The same key may have something else beside it now.
            let is_stale =
                |key: &Vec<u8>| after.beside != before.beside || !before.keys.contains(key);
            for key in after.keys.iter().filter(|key| is_stale(key)) {
                self.put_entry(state, key.clone(), &after.beside, record);
            }
        }
        let bytes = new.as_bytes();
        self.view.put(key::record(collection.id, record), bytes);
        self.touch(collection);
        self.log(event)
    }

    /// Takes a document away.
    ///
    /// # Errors
    /// Write conflict; what [`keys_of`] refuses; write too large.
    pub(crate) fn remove(
        &mut self,
        collection: &Collection,
        record: RecordId,
        document: &RawDocument,
    ) -> Result<()> {
        self.check_room()?;
        let stored = key::record(collection.id, record);
        self.check_contention(&stored)?;
        for state in &collection.indexes {
            for key in keys_of(state, document)?.keys {
                self.view.remove(entry_key(state, &key, record));
            }
        }
        self.view.remove(stored);
        self.touch(collection);
        self.log(|| Event::delete(&collection.name, document))
    }

    /// Adds an index, whose entries for the documents that are there are made by a step.
    ///
    /// # Errors
    /// The definition cannot be read.
    pub(crate) fn build_index(
        &mut self,
        steps: &mut Steps,
        collection: &Collection,
        index: Index,
    ) -> Result<()> {
        let (collection, state) = collection.with_index(index)?;
        steps.fill(collection.id, &collection.name, state);
        self.define(&Arc::new(collection));
        Ok(())
    }

    /// Makes the keys of an index anew, by the rules of now, in steps.
    ///
    /// # Errors
    /// The definition cannot be read.
    pub(crate) fn rebuild_index(
        &mut self,
        steps: &mut Steps,
        collection: &Collection,
        state: &Arc<IndexState>,
    ) -> Result<()> {
        let collection = collection.with_rules(state.id, state.current_rules())?;
        steps.remove(state.prefix.clone());
        steps.fill(collection.id, &collection.name, Arc::clone(state));
        self.define(&Arc::new(collection));
        Ok(())
    }

    /// Changes something of an index that makes no difference to its entries.
    ///
    /// # Errors
    /// The definition cannot be read.
    pub(crate) fn redefine_index(
        &mut self,
        collection: &Collection,
        id: u32,
        change: impl FnOnce(&mut Index),
    ) -> Result<()> {
        self.define(&Arc::new(collection.with_changed_index(id, change)?));
        Ok(())
    }

    /// Removes an index, whose entries are removed by steps.
    pub(crate) fn drop_index(
        &mut self,
        steps: &mut Steps,
        collection: &Collection,
        state: &IndexState,
    ) {
        steps.remove(state.prefix.clone());
        steps.remove(key::multikeys(collection.id, state.id));
        self.define(&Arc::new(collection.without_index(state.id)));
    }

    /// Removes a collection, whose documents and indexes are removed by steps.
    pub(crate) fn drop_collection(
        &mut self,
        steps: &mut Steps,
        collection: &Collection,
    ) -> Result<()> {
        for prefix in key::of_collection(collection.id) {
            steps.remove(prefix);
        }
        self.view.remove(key::catalog(&collection.name));
        self.catalog.remove(&collection.name);
        self.touch(collection);
        self.log(|| Event::drop(&collection.name))
    }

    fn define(&mut self, collection: &Arc<Collection>) {
        let definition = collection.encode();
        self.view
            .put(key::catalog(&collection.name), definition.as_bytes());
        self.catalog.insert(Arc::clone(collection));
        self.touch(collection);
    }

    fn log(&mut self, event: impl FnOnce() -> Result<Event>) -> Result<()> {
        if let Some(events) = &mut self.events {
            let event = event()?;
            self.event_bytes += event.as_bytes().len() + size_of::<Event>();
            events.push(event);
        }
        Ok(())
    }

    /// Refuses to change more than fits into memory.
    fn check_room(&self) -> Result<()> {
        self.check_room_for(0)
    }

    fn check_room_for(&self, more: usize) -> Result<()> {
        if self.view.change_bytes() + self.event_bytes + more > self.max_bytes {
            return Err(Error::write_too_large(MAX_WRITE_BYTES));
        }
        Ok(())
    }

    fn touch(&mut self, collection: &Collection) {
        if !self.written.contains(&collection.name) {
            self.written.insert(collection.name.clone());
        }
    }

    fn refuse_duplicates<'k>(
        &self,
        collection: &Collection,
        state: &IndexState,
        document: &RawDocument,
        keys: impl Iterator<Item = &'k Vec<u8>>,
        own: Option<RecordId>,
    ) -> Result<()> {
        if !state.index.unique {
            return Ok(());
        }
        for key in keys {
            let entry = join(&state.prefix, key);
            let holder = self.view.get(&entry)?;
            let holder = holder
                .map(|bytes| key::trailing_record(&bytes))
                .transpose()?;
            if holder.is_some() && holder != own {
                return Err(duplicate_error(&collection.name, state, document, key));
            }
            self.check_contention(&entry)?;
        }
        Ok(())
    }

    fn check_contention(&self, key: &[u8]) -> Result<()> {
        self.contend.as_ref().map_or(Ok(()), |contend| contend(key))
    }

    fn mark_multikey(
        &mut self,
        collection: &Collection,
        state: &IndexState,
        keys: &Keys,
    ) -> Result<()> {
        let fields = (0..64_u8).filter(|field| keys.multikey & (1 << field) != 0);
        for field in fields {
            let mark = key::multikey(collection.id, state.id, field);
            if self.view.get(&mark)?.is_none() {
                self.view.put(mark, []);
            }
        }
        Ok(())
    }

    fn put_entry(&mut self, state: &IndexState, key: Vec<u8>, beside: &[u8], record: RecordId) {
        let value = entry_value(state, beside, record);
        self.view.put(entry_key(state, &key, record), value);
    }
}

/// Refuses an index that is not there.
pub(crate) fn index_not_found(name: &str) -> Error {
    Error::server(
        code::INDEX_NOT_FOUND,
        format!("index not found with name [{name}]"),
    )
}

/// The key of the entry that an index has for a document under `key`.
pub(crate) fn entry_key(state: &IndexState, key: &[u8], record: RecordId) -> Vec<u8> {
    let mut entry = join(&state.prefix, key);
    if !state.index.unique {
        entry.extend_from_slice(&record.to_be_bytes());
    }
    entry
}

/// The value of the entry that an index has for a document.
fn entry_value(state: &IndexState, beside: &[u8], record: RecordId) -> Vec<u8> {
    let mut value = Vec::with_capacity(beside.len() + size_of::<RecordId>());
    value.extend_from_slice(beside);
    if state.index.unique {
        value.extend_from_slice(&record.to_be_bytes());
    }
    value
}

fn join(prefix: &[u8], key: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(prefix.len() + key.len() + size_of::<RecordId>());
    joined.extend_from_slice(prefix);
    joined.extend_from_slice(key);
    joined
}
