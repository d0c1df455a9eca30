//! The indexes of a collection: create, list, drop.

use std::sync::Arc;
use std::time::Duration;

use bson::{RawBsonRef, RawDocumentBuf};

use crate::catalog::Collection;
use crate::command::Reading;
use crate::error::{Error, Result, code};
use crate::index::{ID_INDEX, Index, IndexState};
use crate::overlay::{Overlay, Steps, index_not_found};
use crate::value;

/// How many indexes a collection can have, that of `_id` included, as on MongoDB.
const MAX_INDEXES: usize = 64;

/// Creates the indexes that are not there yet, all or none of them.
pub(crate) fn create(
    overlay: &mut Overlay,
    steps: &mut Steps,
    name: &str,
    indexes: &[Index],
) -> Result<()> {
    for index in indexes {
        index.check()?;
    }
    let collection = overlay.collection_or_create(name)?;
    let mut missing = Vec::new();
    for index in indexes {
        if !is_id_index(index)? && !exists(&collection, index)? {
            missing.push(index);
        }
    }
    refuse_twins(&missing)?;
    for index in missing {
        // Those before it in the list exist now.
        let collection = overlay.collection_or_create(name)?;
        exists(&collection, index)?;
        if collection.indexes.len() >= MAX_INDEXES {
            let message =
                format!("a collection can have {MAX_INDEXES} indexes at most; drop one first");
            return Err(Error::server(code::CANNOT_CREATE_INDEX, message));
        }
        overlay.build_index(steps, &collection, index.clone())?;
    }
    Ok(())
}

/// The indexes, that of `_id` first; none if there is no such collection.
pub(crate) fn list(reading: Reading<'_>, name: &str) -> Vec<Index> {
    let indexes = reading
        .catalog
        .get(name)
        .map(|collection| &collection.indexes);
    indexes
        .into_iter()
        .flatten()
        .map(|state| state.listed())
        .collect()
}

/// Which indexes to drop.
#[derive(Clone, Debug, PartialEq)]
pub enum DropIndexes {
    /// All but that of `_id`.
    All,
    /// Those with these names.
    Named(Vec<String>),
    /// The one with these fields and directions.
    Keyed(RawDocumentBuf),
}

/// Removes several indexes with their entries, all or none of them.
pub(crate) fn drop_several(
    overlay: &mut Overlay,
    steps: &mut Steps,
    name: &str,
    which: &DropIndexes,
) -> Result<()> {
    let collection = overlay.collection(name);
    let indexes = collection.iter().flat_map(|found| &found.indexes);
    let names: Vec<String> = match which {
        DropIndexes::Named(names) if matches!(names.as_slice(), [all] if all == "*") => {
            return drop_several(overlay, steps, name, &DropIndexes::All);
        }
        DropIndexes::All => indexes
            .filter(|state| state.id != ID_INDEX)
            .map(|state| state.index.name.clone())
            .collect(),
        DropIndexes::Named(names) => names.clone(),
        DropIndexes::Keyed(key) => {
            let keyed: Vec<_> = indexes
                .filter(|state| {
                    let own = state.index.key_pattern();
                    let (own, key) = (RawBsonRef::Document(&own), RawBsonRef::Document(key));
                    value::compare(own, key).is_eq()
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
                return Err(Error::server(code::AMBIGUOUS_INDEX_KEY_PATTERN, message));
            }
            keyed
        }
    };
    names
        .iter()
        .try_for_each(|index| drop(overlay, steps, name, index))
}

/// Removes an index with its entries.
pub(crate) fn drop(
    overlay: &mut Overlay,
    steps: &mut Steps,
    name: &str,
    index: &str,
) -> Result<()> {
    let (collection, state) = find_index(overlay, name, index)?;
    if state.id == ID_INDEX {
        let message = "the index of _id cannot be dropped";
        return Err(Error::server(code::INVALID_OPTIONS, message));
    }
    overlay.drop_index(steps, &collection, &state);
    Ok(())
}

/// Hides an index from queries, or shows it again.
pub(crate) fn set_hidden(
    overlay: &mut Overlay,
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
    overlay: &mut Overlay,
    name: &str,
    index: &str,
    after: Duration,
) -> Result<()> {
    let (collection, state) = find_index(overlay, name, index)?;
    let changed = Index {
        expire_after: Some(after),
        ..state.index.clone()
    };
    changed.check()?;
    if state.index.expire_after == Some(after) {
        return Ok(());
    }
    overlay.redefine_index(&collection, state.id, |index| {
        index.expire_after = Some(after);
    })
}

/// A collection and one of its indexes.
///
/// # Errors
/// Index not found, also without the collection.
fn find_index(
    overlay: &Overlay,
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

/// Whether this asks for the index that every collection has.
fn is_id_index(index: &Index) -> Result<bool> {
    if !index.is_of_id() {
        if index.name == "_id_" {
            let message = "the name _id_ is reserved for the index of _id; choose another one";
            return Err(Error::bad_value(message));
        }
        return Ok(false);
    }
    if index.unique || index.sparse || index.hidden || index.partial.is_some() {
        let message = "the index of _id takes no options";
        return Err(Error::server(
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

/// Whether the very same index exists.
///
/// # Errors
/// An index with the same name or the same keys that differs in something else.
fn exists(collection: &Collection, index: &Index) -> Result<bool> {
    let existing = || collection.indexes.iter().map(|state| &state.index);
    // As on MongoDB, the name is asked about first.
    if existing().any(|other| other.name == index.name && !other.is_equivalent(index)) {
        let name = &index.name;
        let message = format!("another index is named {name}; drop it first, or choose a name");
        return Err(Error::server(code::INDEX_KEY_SPECS_CONFLICT, message));
    }
    if let Some(other) = existing().find(|other| other.is_equivalent(index)) {
        if other.name == index.name && other.expire_after == index.expire_after {
            return Ok(true);
        }
        let message = if other.expire_after != index.expire_after {
            format!(
                "the index {} has the same fields and other options",
                other.name
            )
        } else {
            format!("Index already exists with a different name: {}", other.name)
        };
        return Err(Error::server(code::INDEX_OPTIONS_CONFLICT, message));
    }
    Ok(false)
}

/// Refuses a list that has one index twice.
fn refuse_twins(indexes: &[&Index]) -> Result<()> {
    for (position, index) in indexes.iter().enumerate() {
        if indexes
            .iter()
            .skip(position + 1)
            .any(|other| other.is_equivalent(index) && other.name == index.name)
        {
            let message = format!("Identical index already exists: {}", index.name);
            return Err(Error::server(code::INDEX_ALREADY_EXISTS, message));
        }
    }
    Ok(())
}
