//! Commands on collections: create, list, drop.

use super::ReadState;
use crate::error::{Error, Result, code};
use crate::overlay::WriteOverlay;

/// Creates a collection that has only the index of `_id`.
pub(crate) fn create(overlay: &mut WriteOverlay, name: &str) -> Result<()> {
    if overlay.collection(name).is_some() {
        let message = format!("Collection already exists: {name}");
        return Err(Error::with_server_code(code::NAMESPACE_EXISTS, message));
    }
    overlay.collection_or_create(name).map(|_| ())
}

/// Returns the names of the collections.
pub(crate) fn list(reading: ReadState<'_>) -> Vec<String> {
    let collections = reading.catalog.collections();
    collections
        .map(|collection| collection.name.clone())
        .collect()
}

/// Removes a collection with its documents and indexes. Does nothing if the collection does not exist.
pub(crate) fn drop(overlay: &mut WriteOverlay, name: &str) -> Result<()> {
    match overlay.collection(name) {
        Some(collection) => overlay.drop_collection(&collection),
        None => Ok(()),
    }
}
