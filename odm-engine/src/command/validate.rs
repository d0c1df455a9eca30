use bson::RawDocument;

use super::Reading;
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::document;
use crate::error::{Error, Result};
use crate::index::IndexState;
use crate::index::keys::keys_of;
use crate::interrupt;
use crate::key::{self, RecordId};
use crate::overlay::entry_key;
use crate::store::{KeyRange, Snapshot, View};
use crate::value;

/// Checks that documents and index entries follow from each other, and that nothing else is stored.
pub(crate) fn run(reading: Reading<'_>) -> Result<()> {
    let view = reading.view;
    // The format, the definitions and what the change log keeps, which opening the database has read.
    let mut expected = 1 + count(view, &key::change_log())? + count(view, &key::events())?;
    for collection in reading.catalog.collections() {
        expected += 1 + check_collection(view, collection)?;
    }
    let found = count(view, &[])?;
    if found != expected {
        let message =
            format!("{found} keys are stored, and {expected} of them belong to something");
        return Err(Error::damaged(message));
    }
    Ok(())
}

/// Checks a collection, and returns how many keys belong to it.
fn check_collection(view: &View, collection: &Collection) -> Result<u64> {
    let damaged = |record: RecordId, what: String| {
        let name = &collection.name;
        Error::damaged(format!("document {record} of {name}: {what}"))
    };
    let mut documents = 0;
    let mut entries = vec![0; collection.indexes.len()];
    let records = KeyRange::prefix(&key::records(collection.id));
    for stored in view.range(records, Direction::Ascending) {
        interrupt::check()?;
        let (key, bytes) = stored?;
        let record = key::trailing_record(&key)?;
        check_document(&bytes).map_err(|error| damaged(record, error.to_string()))?;
        let document = RawDocument::from_bytes(&*bytes)?;
        for (state, entries) in collection.indexes.iter().zip(&mut entries) {
            *entries += check_entries(view, collection, state, record, document)
                .map_err(|error| damaged(record, error.to_string()))?;
        }
        documents += 1;
    }
    let mut keys = documents;
    for (state, entries) in collection.indexes.iter().zip(entries) {
        // All entries that are wanted are there, so only their number can be wrong.
        let found = count(view, &state.prefix)?;
        if found != entries {
            let (index, name) = (&state.index.name, &collection.name);
            let message = format!("index {index} of {name} has {found} entries, not {entries}");
            return Err(Error::damaged(message));
        }
        keys += found + count(view, &key::multikeys(collection.id, state.id))?;
    }
    Ok(keys)
}

fn check_document(bytes: &[u8]) -> Result<()> {
    let document = RawDocument::from_bytes(bytes)?;
    value::check(document)?;
    document::id(document).map(|_| ())
}

/// Checks that a document has its entries in an index, and returns how many they are.
fn check_entries(
    view: &View,
    collection: &Collection,
    state: &IndexState,
    record: RecordId,
    document: &RawDocument,
) -> Result<u64> {
    let index = &state.index.name;
    let keys = keys_of(state, document)?;
    for key in &keys.keys {
        let Some(value) = view.get(&entry_key(state, key, record))? else {
            return Err(Error::damaged(format!("it is not in the index {index}")));
        };
        if state.index.unique && key::trailing_record(&value)? != record {
            let message = format!("its key in the index {index} leads to another document");
            return Err(Error::damaged(message));
        }
    }
    for field in (0..64_u8).filter(|field| keys.multikey & (1 << field) != 0) {
        let mark = key::multikey(collection.id, state.id, field);
        if view.get(&mark)?.is_none() {
            let message = format!("the index {index} is not marked for its arrays");
            return Err(Error::damaged(message));
        }
    }
    Ok(keys.keys.len() as u64)
}

/// How many keys begin with `prefix`.
fn count(view: &View, prefix: &[u8]) -> Result<u64> {
    let mut keys = view.range(KeyRange::prefix(prefix), Direction::Ascending);
    keys.try_fold(0, |count, entry| {
        interrupt::check()?;
        entry.map(|_| count + 1)
    })
}
