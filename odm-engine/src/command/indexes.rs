//! Commands on indexes: create, list, drop.

use std::sync::Arc;
use std::time::Duration;

use bson::{RawBsonRef, RawDocumentBuf};

use crate::catalog::Collection;
use crate::command::ReadState;
use crate::error::{Error, Result, code};
use crate::index::{ID_INDEX, Index, IndexState};
use crate::overlay::{WriteOverlay, index_not_found};
use crate::value;

/// The maximum number of indexes in a collection, including the index of `_id`, as on MongoDB.
const MAX_INDEXES: usize = 64;

/// Adds the missing indexes to the definition of a collection, and returns them. Their entries are still missing.
pub(crate) fn add_missing(
    overlay: &mut WriteOverlay,
    name: &str,
    indexes: &[Index],
) -> Result<Vec<Arc<IndexState>>> {
    for index in indexes {
        index.check_definition()?;
    }
    let collection = overlay.collection_or_create(name)?;
    let mut missing = Vec::new();
    for index in indexes {
        if !is_id_index(index)? && !index_exists(&collection, index)? {
            missing.push(index);
        }
    }
    ensure_no_duplicates(&missing)?;
    let mut added = Vec::with_capacity(missing.len());
    for index in missing {
        // Read the collection again: it now has the earlier indexes of the list.
        let collection = overlay.collection_or_create(name)?;
        index_exists(&collection, index)?;
        if collection.indexes.len() >= MAX_INDEXES {
            let message =
                format!("a collection can have {MAX_INDEXES} indexes at most; drop one first");
            return Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message));
        }
        added.push(overlay.add_index(&collection, index.clone())?);
    }
    Ok(added)
}

/// Returns the indexes, starting with the index of `_id`. A collection that does not exist has no indexes.
pub(crate) fn list(reading: ReadState<'_>, name: &str) -> Vec<Index> {
    let indexes = reading
        .catalog
        .get(name)
        .map(|collection| &collection.indexes);
    indexes
        .into_iter()
        .flatten()
        .map(|state| state.to_listed())
        .collect()
}

/// The indexes to drop.
#[derive(Clone, Debug, PartialEq)]
pub enum DropIndexes {
    /// All indexes except the index of `_id`.
    All,
    /// The indexes with these names.
    Named(Vec<String>),
    /// The index with these fields and directions.
    Keyed(RawDocumentBuf),
}

/// Removes several indexes with their entries. Removes either all of them or none.
pub(crate) fn drop_several(
    overlay: &mut WriteOverlay,
    name: &str,
    selection: &DropIndexes,
) -> Result<()> {
    let collection = overlay.collection(name);
    let indexes = collection.iter().flat_map(|existing| &existing.indexes);
    let names: Vec<String> = match selection {
        DropIndexes::Named(names) if matches!(names.as_slice(), [wildcard] if wildcard == "*") => {
            return drop_several(overlay, name, &DropIndexes::All);
        }
        DropIndexes::All => indexes
            .filter(|state| state.id != ID_INDEX)
            .map(|state| state.index.name.clone())
            .collect(),
        DropIndexes::Named(names) => names.clone(),
        DropIndexes::Keyed(key) => {
            let keyed: Vec<_> = indexes
                .filter(|state| {
                    let pattern = state.index.key_pattern();
                    let (pattern, key) =
                        (RawBsonRef::Document(&pattern), RawBsonRef::Document(key));
                    value::compare(pattern, key).is_eq()
                })
                .map(|state| state.index.name.clone())
                .collect();
            if keyed.is_empty() {
                return Err(index_not_found(&format!("{key:?}")));
            }
            if keyed.len() > 1 {
                let message = format!(
                    "several indexes have these fields; drop one by its name: {}",
                    keyed.join(", ")
                );
                return Err(Error::with_server_code(
                    code::AMBIGUOUS_INDEX_KEY_PATTERN,
                    message,
                ));
            }
            keyed
        }
    };
    names
        .iter()
        .try_for_each(|index| drop(overlay, name, index))
}

/// Removes an index with its entries.
pub(crate) fn drop(overlay: &mut WriteOverlay, name: &str, index: &str) -> Result<()> {
    let (collection, state) = find_index(overlay, name, index)?;
    if state.id == ID_INDEX {
        let message = "the index of _id cannot be dropped";
        return Err(Error::with_server_code(code::INVALID_OPTIONS, message));
    }
    overlay.drop_index(&collection, &state)
}

/// Hides an index from queries, or shows it again.
pub(crate) fn set_hidden(
    overlay: &mut WriteOverlay,
    name: &str,
    index: &str,
    hidden: bool,
) -> Result<()> {
    let (collection, state) = find_index(overlay, name, index)?;
    if state.id == ID_INDEX && hidden {
        return Err(Error::bad_value("the index of _id cannot be hidden"));
    }
    if state.index.hidden == hidden {
        return Ok(());
    }
    overlay.redefine_index(&collection, state.id, |index| index.hidden = hidden)
}

/// Changes the time after which an index expires documents. The index is not rebuilt.
pub(crate) fn set_expiry(
    overlay: &mut WriteOverlay,
    name: &str,
    index: &str,
    after: Duration,
) -> Result<()> {
    let (collection, state) = find_index(overlay, name, index)?;
    let changed = Index {
        expire_after: Some(after),
        ..state.index.clone()
    };
    changed.check_definition()?;
    if state.index.expire_after == Some(after) {
        return Ok(());
    }
    overlay.redefine_index(&collection, state.id, |index| {
        index.expire_after = Some(after);
    })
}

/// Returns a collection and one of its indexes.
///
/// # Errors
/// Index not found, even if the collection does not exist.
fn find_index(
    overlay: &WriteOverlay,
    name: &str,
    index: &str,
) -> Result<(Arc<Collection>, Arc<IndexState>)> {
    let collection = overlay
        .collection(name)
        .ok_or_else(|| index_not_found(index))?;
    let state = collection
        .indexes
        .iter()
        .find(|state| state.index.name == index)
        .cloned()
        .ok_or_else(|| index_not_found(index))?;
    Ok((collection, state))
}

/// Whether the definition stands for the index of `_id`, which every collection has.
fn is_id_index(index: &Index) -> Result<bool> {
    if !index.is_id_index() {
        if index.name == "_id_" {
            let message = "the name _id_ is reserved for the index of _id; choose another one";
            return Err(Error::bad_value(message));
        }
        return Ok(false);
    }
    if index.unique || index.sparse || index.hidden || index.partial.is_some() {
        let message = "the index of _id takes no options";
        return Err(Error::with_server_code(
            code::INVALID_INDEX_SPECIFICATION_OPTION,
            message,
        ));
    }
    let (key, ascending) = (index.key_pattern(), bson::rawdoc! { "_id": 1 });
    if value::compare(RawBsonRef::Document(&key), RawBsonRef::Document(&ascending)).is_ne() {
        let message = "the index of _id is ascending; it can be read in both directions";
        return Err(Error::bad_value(message));
    }
    Ok(true)
}

/// Whether an identical index exists.
///
/// # Errors
/// A different index with the same name or the same keys.
fn index_exists(collection: &Collection, index: &Index) -> Result<bool> {
    let existing = || collection.indexes.iter().map(|state| &state.index);
    // As on MongoDB, check the name first.
    if existing().any(|other| other.name == index.name && !other.is_equivalent(index)) {
        let name = &index.name;
        let message = format!(
            "a different index has the name {name}; drop that index first, or choose another name"
        );
        return Err(Error::with_server_code(
            code::INDEX_KEY_SPECS_CONFLICT,
            message,
        ));
    }
    if let Some(other) = existing().find(|other| other.is_equivalent(index)) {
        if other.name == index.name && other.expire_after == index.expire_after {
            return Ok(true);
        }
        let message = if other.expire_after != index.expire_after {
            format!(
                "the index {} has the same fields with different options; drop it first",
                other.name
            )
        } else {
            format!("Index already exists with a different name: {}", other.name)
        };
        return Err(Error::with_server_code(
            code::INDEX_OPTIONS_CONFLICT,
            message,
        ));
    }
    Ok(false)
}

/// Refuses a list with duplicate indexes.
fn ensure_no_duplicates(indexes: &[&Index]) -> Result<()> {
    for (position, index) in indexes.iter().enumerate() {
        if indexes
            .iter()
            .skip(position + 1)
            .any(|other| other.is_equivalent(index) && other.name == index.name)
        {
            let message = format!("Identical index already exists: {}", index.name);
            return Err(Error::with_server_code(code::INDEX_ALREADY_EXISTS, message));
        }
    }
    Ok(())
}
