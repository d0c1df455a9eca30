//! The keys that an index holds for a document.
//!
//! Arrays are expanded as [`key_tuples`] does. An empty array counts as undefined, a missing field as
//! null.

use std::collections::BTreeSet;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::IndexState;
use crate::document::append;
use crate::error::{DuplicateKey, Error, Result, code};
use crate::key::value::encode;
use crate::path::{KeyError, Path, key_tuples};
use crate::value;

/// The keys of one document in one index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The encoded keys, without the prefix of the index.
    pub(crate) keys: BTreeSet<Vec<u8>>,
    /// The fields whose paths meet an array, one bit each.
    pub(crate) multikey: u64,
}

/// The keys of `document`: none if the index leaves it out.
///
/// # Errors
/// Parallel arrays, ambiguous positions, too deep nesting.
pub(crate) fn keys_of(state: &IndexState, document: &RawDocument) -> Result<Keys> {
    let mut keys = Keys::default();
    for values in tuples(state, document)? {
        keys.keys.insert(encode_key(state, &values)?);
    }
    for (field, path) in state.paths.iter().enumerate() {
        if meets_array(document, path) {
            keys.multikey |= 1 << field;
        }
    }
    Ok(keys)
}

/// The error for a key of `document` that another document has in a unique index.
pub(crate) fn duplicate_error(
    collection: &str,
    state: &IndexState,
    document: &RawDocument,
    key: &[u8],
) -> Error {
    let key_value = tuples(state, document).ok().and_then(|tuples| {
        let mut tuples = tuples.iter();
        tuples
            .find(|values| encode_key(state, values).is_ok_and(|encoded| encoded == key))
            .map(|values| key_document(state, values))
    });
    Error::duplicate(DuplicateKey {
        collection: collection.to_owned(),
        index: state.index.name.clone(),
        key_pattern: state.index.key_pattern(),
        key_value: key_value.unwrap_or_default(),
    })
}

type Tuple<'d> = Vec<Option<RawBsonRef<'d>>>;

fn tuples<'d>(state: &IndexState, document: &'d RawDocument) -> Result<Vec<Tuple<'d>>> {
    if state
        .partial
        .as_ref()
        .is_some_and(|filter| !filter.accepts(document))
    {
        return Ok(Vec::new());
    }
    let mut tuples = key_tuples(&state.paths, document).map_err(key_error)?;
    if state.index.sparse {
        tuples.retain(|values| values.iter().any(Option::is_some));
    }
    Ok(tuples)
}

fn encode_key(state: &IndexState, values: &[Option<RawBsonRef<'_>>]) -> Result<Vec<u8>> {
    let mut key = Vec::with_capacity(values.len() * 16);
    for ((_, direction), value) in state.index.keys.iter().zip(values) {
        encode(value.unwrap_or(RawBsonRef::Null), *direction, &mut key)?;
    }
    Ok(key)
}

fn key_document(state: &IndexState, values: &[Option<RawBsonRef<'_>>]) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for ((path, _), value) in state.index.keys.iter().zip(values) {
        append(&mut document, path, value.unwrap_or(RawBsonRef::Null));
    }
    document
}

fn meets_array(document: &RawDocument, path: &Path) -> bool {
    let mut document = document;
    for part in path.parts() {
        match value::get(document, part.name()) {
            Some(RawBsonRef::Array(_)) => return true,
            Some(RawBsonRef::Document(inner)) => document = inner,
            _ => return false,
        }
    }
    false
}

fn key_error(error: KeyError) -> Error {
    match error {
        KeyError::ParallelArrays(one, two) => {
            let message = format!("cannot index parallel arrays [{one}] [{two}]; use two indexes");
            Error::server(code::CANNOT_INDEX_PARALLEL_ARRAYS, message)
        }
        KeyError::AmbiguousPosition(name) => {
            let message = format!("'{name}' is both a position and a field's name in an array");
            Error::server(code::AMBIGUOUS_INDEX_KEY, message)
        }
    }
}
