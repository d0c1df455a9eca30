//! The collections of a database: create, list, drop.

use super::Reading;
use crate::error::{Error, Result, code};
use crate::overlay::{Overlay, Steps};

/// Creates a collection with nothing but the index of `_id`.
pub(crate) fn create(overlay: &mut Overlay, name: &str) -> Result<()> {
    if overlay.collection(name).is_some() {
        let message = format!("Collection already exists: {name}");
        return Err(Error::server(code::NAMESPACE_EXISTS, message));
    }
    overlay.collection_or_create(name).map(|_| ())
}

/// The names of the collections.
pub(crate) fn list(reading: Reading<'_>) -> Vec<String> {
    let collections = reading.catalog.collections();
    collections
        .map(|collection| collection.name.clone())
        .collect()
}

/// Removes a collection with its documents and indexes; nothing happens if there is none.
pub(crate) fn drop(overlay: &mut Overlay, steps: &mut Steps, name: &str) -> Result<()> {
    match overlay.collection(name) {
        Some(collection) => overlay.drop_collection(steps, &collection),
        None => Ok(()),
    }
}
