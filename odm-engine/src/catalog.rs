//! The catalog: all collections and their indexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf};
use imbl::OrdMap;

use crate::direction::Direction;
use crate::document::append_field;
use crate::error::{Error, Result, code};
use crate::index::{ID_INDEX, Index, IndexState};
use crate::key::{self, RecordId};
use crate::store::{Changes, KeyRange, Snapshot, StoreView};

/// The collections in one state of the database. A clone is cheap.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    collections: OrdMap<String, Arc<Collection>>,
    policy: CatalogPolicy,
}

/// Settings for all collections of a database. Clones share the settings.
#[derive(Clone, Default)]
pub(crate) struct CatalogPolicy {
    forbids_scans: Arc<AtomicBool>,
}

/// A collection and its indexes.
pub(crate) struct Collection {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// All indexes. The index of `_id` comes first.
    pub(crate) indexes: Vec<Arc<IndexState>>,
    next_index: u32,
    /// The first index with document parts in its entries. The engine that built earlier indexes did not write parts.
    parts_since: u32,
    /// The settings for all collections of the database.
    policy: CatalogPolicy,
    /// Shared by all versions of the collection, so that two transactions never get the same record number.
    next_record: Arc<AtomicU64>,
}

impl CatalogPolicy {
    /// Whether operations that would read every document of a collection are refused.
    pub(crate) fn forbids_scans(&self) -> bool {
        self.forbids_scans.load(Ordering::Relaxed)
    }

    pub(crate) fn set_forbids_scans(&self, forbids_scans: bool) {
        self.forbids_scans.store(forbids_scans, Ordering::Relaxed);
    }
}

impl Catalog {
    pub(crate) fn load(view: &StoreView) -> Result<Catalog> {
        let mut catalog = Catalog::default();
        let definitions = KeyRange::with_prefix(&key::catalog_prefix());
        for entry in view.range(definitions, Direction::Ascending) {
            let (key, value) = entry?;
            catalog.read_definition(view, &key, &value)?;
        }
        Ok(catalog)
    }

    /// Applies the definitions among `changes`, which `view` already contains. Returns the names of the changed collections.
    pub(crate) fn apply_changes(
        &mut self,
        view: &StoreView,
        changes: &Changes,
    ) -> Result<Vec<String>> {
        let definitions = KeyRange::with_prefix(&key::catalog_prefix());
        let mut changed = Vec::new();
        for (key, value) in changes.range::<_, [u8]>(definitions.as_bounds()) {
            let name = key::catalog_name(key)?;
            match value {
                Some(value) => self.read_definition(view, key, value)?,
                None => self.remove(name),
            }
            changed.push(name.to_owned());
        }
        Ok(changed)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Collection>> {
        self.collections.get(name)
    }

    pub(crate) fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.collections.values()
    }

    pub(crate) fn policy(&self) -> &CatalogPolicy {
        &self.policy
    }

    pub(crate) fn insert(&mut self, collection: Arc<Collection>) {
        self.collections.insert(collection.name.clone(), collection);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.collections.remove(name);
    }

    /// Sets the definition of a collection; `None` for a dropped collection.
    pub(crate) fn set(&mut self, name: &str, definition: Option<Arc<Collection>>) {
        match definition {
            Some(collection) => self.insert(collection),
            None => self.remove(name),
        }
    }

    fn read_definition(&mut self, view: &StoreView, key: &[u8], value: &[u8]) -> Result<()> {
        let name = key::catalog_name(key)?;
        let known = self.collections.get(name);
        let policy = self.policy.clone();
        let collection = Collection::decode_definition(view, name, value, known, policy)?;
        self.insert(Arc::new(collection));
        Ok(())
    }
}

impl Collection {
    /// Returns a collection that has only the index of `_id`.
    pub(crate) fn new(id: u32, name: &str, policy: CatalogPolicy) -> Collection {
        Collection {
            id,
            name: name.to_owned(),
            indexes: vec![Arc::new(IndexState::of_id(id))],
            next_index: ID_INDEX + 1,
            parts_since: ID_INDEX,
            policy,
            next_record: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Whether the entries of an index contain document parts, so that the index can cover a query.
    pub(crate) fn has_parts(&self, state: &IndexState) -> bool {
        state.id >= self.parts_since && state.part.is_some()
    }

    pub(crate) fn policy(&self) -> &CatalogPolicy {
        &self.policy
    }

    pub(crate) fn allocate_record(&self) -> RecordId {
        self.next_record.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the collection with an additional index.
    pub(crate) fn with_index(&self, index: Index) -> Result<(Collection, Arc<IndexState>)> {
        let state = IndexState::new(self.id, self.next_index, index)?;
        let rules = state.current_rules();
        let state = Arc::new(state.with_rules(rules));
        let mut collection = self.clone_definition();
        collection.next_index = self.next_index.saturating_add(1);
        collection.indexes.push(Arc::clone(&state));
        Ok((collection, state))
    }

    /// Returns the collection with a changed definition of one index.
    pub(crate) fn with_changed_index(
        &self,
        id: u32,
        change: impl FnOnce(&mut Index),
    ) -> Result<Collection> {
        let mut collection = self.clone_definition();
        if let Some(state) = collection.indexes.iter_mut().find(|state| state.id == id) {
            let mut index = state.index.clone();
            change(&mut index);
            let rules = state.rules;
            *state = Arc::new(IndexState::new(self.id, id, index)?.with_rules(rules));
        }
        Ok(collection)
    }

    /// Returns the collection with different collation rules for one index.
    pub(crate) fn with_rules(&self, id: u32, rules: Option<i64>) -> Result<Collection> {
        let mut collection = self.clone_definition();
        if let Some(state) = collection.indexes.iter_mut().find(|state| state.id == id) {
            let index = state.index.clone();
            *state = Arc::new(IndexState::new(self.id, id, index)?.with_rules(rules));
        }
        Ok(collection)
    }

    /// Returns the collection without one of its indexes.
    pub(crate) fn without_index(&self, id: u32) -> Collection {
        let mut collection = self.clone_definition();
        collection.indexes.retain(|state| state.id != id);
        collection
    }

    pub(crate) fn encode_definition(&self) -> RawDocumentBuf {
        let mut indexes = RawArrayBuf::new();
        for state in self.indexes.iter().filter(|state| state.id != ID_INDEX) {
            let mut document = RawDocumentBuf::new();
            append_field(&mut document, "id", i64::from(state.id));
            append_field(&mut document, "spec", state.index.to_stored());
            if let Some(rules) = state.rules {
                append_field(&mut document, "rules", rules);
            }
            indexes.push(document);
        }
        let mut document = RawDocumentBuf::new();
        append_field(&mut document, "id", i64::from(self.id));
        append_field(&mut document, "nextIndex", i64::from(self.next_index));
        append_field(&mut document, "partsSince", i64::from(self.parts_since));
        append_field(&mut document, "indexes", indexes);
        document
    }

    fn decode_definition(
        view: &StoreView,
        name: &str,
        bytes: &[u8],
        known: Option<&Arc<Collection>>,
        policy: CatalogPolicy,
    ) -> Result<Self> {
        let damaged = |error: bson::error::Error| {
            Error::damaged(format!("the definition of {name} cannot be read: {error}"))
        };
        let document = RawDocument::from_bytes(bytes).map_err(damaged)?;
        let id = read_number(document, "id")?;
        let mut collection = Collection::new(id, name, policy);
        collection.next_index = read_number(document, "nextIndex")?;
        collection.parts_since = match document.get("partsSince").map_err(damaged)? {
            Some(_) => read_number(document, "partsSince")?,
            // A definition of format version 1.
            None => collection.next_index,
        };
        collection.next_record = match known.filter(|known| known.id == id) {
            Some(known) => Arc::clone(&known.next_record),
            None => Arc::new(AtomicU64::new(first_free_record(view, id)?)),
        };
        for entry in document.get_array("indexes").map_err(damaged)? {
            let Some(entry) = entry.map_err(damaged)?.as_document() else {
                return Err(Error::damaged(format!("an index of {name} cannot be read")));
            };
            let specification = entry.get_document("spec").map_err(damaged)?;
            let index = Index::from_document(specification)?;
            let state = IndexState::new(id, read_number(entry, "id")?, index)?;
            let rules = entry.get_i64("rules").ok();
            collection.indexes.push(Arc::new(state.with_rules(rules)));
        }
        Ok(collection)
    }

    fn clone_definition(&self) -> Collection {
        Collection {
            id: self.id,
            name: self.name.clone(),
            indexes: self.indexes.clone(),
            next_index: self.next_index,
            parts_since: self.parts_since,
            policy: self.policy.clone(),
            next_record: Arc::clone(&self.next_record),
        }
    }
}

/// Refuses collection names that MongoDB refuses.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let invalid = name.is_empty()
        || name.contains(['\0', '$'])
        || name.starts_with('.')
        || name.ends_with('.');
    if invalid {
        let message = format!("'{name}' cannot be the name of a collection");
        return Err(Error::with_server_code(code::INVALID_NAMESPACE, message));
    }
    Ok(())
}

fn first_free_record(view: &StoreView, collection: u32) -> Result<RecordId> {
    let records = KeyRange::with_prefix(&key::record_prefix(collection));
    match view.range(records, Direction::Descending).next() {
        Some(last) => Ok(key::trailing_record(&last?.0)?.saturating_add(1)),
        None => Ok(0),
    }
}

fn read_number(document: &RawDocument, field: &str) -> Result<u32> {
    let number = document.get_i64(field).ok();
    number
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| Error::damaged(format!("the catalog has no {field}")))
}
