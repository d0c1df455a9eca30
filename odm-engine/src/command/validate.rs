use bson::RawDocument;

use super::ReadState;
use super::stats::count_entries;
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::document;
use crate::error::{Error, Result};
use crate::index::IndexState;
use crate::index::keys::keys_of;
use crate::interrupt;
use crate::key::{self, RecordId};
use crate::overlay::entry_key;
use crate::store::{KeyRange, Snapshot, StoreView};
use crate::value;

/// Checks that documents and index entries correspond, and that no other data is stored.
pub(crate) fn run_validation(reading: ReadState<'_>) -> Result<()> {
    let view = &reading.view.with_verification();
    // One key for the format, one for the write-ahead log if there is a log, the keys of the change log, and dropped data. All of them
    // but the dropped data were read when the database was opened.
    let mut expected = 1
        + count_keys(view, &key::for_log_start())?
        + count_keys(view, &key::for_change_log())?
        + count_keys(view, &key::event_prefix())?
        + count_keys(view, &key::removal_prefix())?;
    let mut last: Option<Vec<u8>> = None;
    for prefix in key::removal_marks(view)? {
        // The marks are in order: the mark of a collection comes before the marks of its indexes.
        if !last.as_ref().is_some_and(|last| prefix.starts_with(last)) {
            expected += count_keys(view, &prefix)?;
            last = Some(prefix);
        }
    }
    for collection in reading.catalog.collections() {
        expected += 1 + check_collection(view, collection)?;
    }
    let key_count = count_keys(view, &[])?;
    if key_count != expected {
        let message =
            format!("{key_count} keys are stored, but only {expected} belong to known data");
        return Err(Error::damaged(message));
    }
    Ok(())
}

/// Checks a collection. Returns the number of its keys.
fn check_collection(view: &StoreView, collection: &Collection) -> Result<u64> {
    let damaged = |record: RecordId, problem: String| {
        let name = &collection.name;
        Error::damaged(format!("document {record} of {name}: {problem}"))
    };
    let mut documents = 0;
    let mut entries = vec![0; collection.indexes.len()];
    let records = KeyRange::with_prefix(&key::record_prefix(collection.id));
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
        // All required entries exist, so only surplus entries remain to be found.
        let key_count = count_keys(view, &state.prefix)?;
        if key_count != entries {
            let (index, name) = (&state.index.name, &collection.name);
            let message = format!("index {index} of {name} has {key_count} entries, not {entries}");
            return Err(Error::damaged(message));
        }
        keys += key_count + count_keys(view, &key::multikey_prefix(collection.id, state.id))?;
    }
    Ok(keys)
}

fn check_document(bytes: &[u8]) -> Result<()> {
    let document = RawDocument::from_bytes(bytes)?;
    value::check_document(document)?;
    document::document_id(document).map(|_| ())
}

/// Checks that a document has its entries in an index. Returns the number of entries.
fn check_entries(
    view: &StoreView,
    collection: &Collection,
    state: &IndexState,
    record: RecordId,
    document: &RawDocument,
) -> Result<u64> {
    let index = &state.index.name;
    let keys = keys_of(state, document)?;
    for key in &keys.keys {
        let Some(value) = view.get(&entry_key(state, key, record))? else {
            return Err(Error::damaged(format!("no entry in the index {index}")));
        };
        if state.index.unique && key::trailing_record(&value)? != record {
            let message =
                format!("the index {index} has an entry for the key with a different document");
            return Err(Error::damaged(message));
        }
    }
    for field in (0..64_u8).filter(|field| keys.multikey & (1 << field) != 0) {
        let mark = key::for_multikey(collection.id, state.id, field);
        if view.get(&mark)?.is_none() {
            let message =
                format!("the index {index} has no multikey marker for an array of the document");
            return Err(Error::damaged(message));
        }
    }
    Ok(keys.keys.len() as u64)
}

/// Counts the keys that begin with `prefix`.
fn count_keys(view: &StoreView, prefix: &[u8]) -> Result<u64> {
    Ok(count_entries(view, prefix)?.count)
}
