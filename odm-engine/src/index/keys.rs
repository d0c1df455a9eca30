//! The keys of a document in an index.
//!
//! Arrays are expanded by [`key_tuples`]. An empty array counts as undefined, and a missing field as null.
//! [Hashed](super::hashed) and [wildcard](super::wildcard) indexes compute their keys differently.

use std::collections::BTreeSet;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::{IndexState, collation, hashed, part, wildcard};
use crate::collation::Collation;
use crate::document::append_field;
use crate::error::{DuplicateKey, Error, Result, code};
use crate::filter::Filter;
use crate::key::value::encode_indexed;
use crate::path::{KeyError, Path, key_tuples};
use crate::value;

/// The maximum size of all keys of one document in one index, in bytes. Each array element has a key that repeats the remaining
/// fields. MongoDB has no fixed limit, and is limited by its memory.
const MAX_KEY_BYTES: usize = 128 << 20;

/// The keys of one document in one index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexKeys {
    /// The encoded keys, without the prefix of the index.
    pub(crate) keys: BTreeSet<Vec<u8>>,
    /// One bit for each field: whether the path contains an array.
    pub(crate) multikey: u64,
    /// The stored document part. Empty if a field contains an array or if the key determines the part.
    pub(crate) stored_part: Vec<u8>,
}

impl IndexKeys {
    /// The approximate memory of the keys, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // 64 bytes for a place in the set and an allocation.
        self.keys.iter().map(|key| key.len() + 64).sum()
    }
}

/// Returns the keys of `document`. There are no keys if the index leaves the document out.
///
/// # Errors
/// Parallel arrays, ambiguous positions, nesting too deep, too many bytes.
pub(crate) fn keys_of(state: &IndexState, document: &RawDocument) -> Result<IndexKeys> {
    let mut collector = KeyCollector::new(&state.index.name);
    if let Some(coverage) = &state.coverage {
        if is_indexed(state, document) {
            wildcard::collect_keys(coverage, document, state.collator.as_ref(), &mut collector)?;
        }
        return Ok(collector.keys);
    }
    if state.index.hashed.is_some() {
        if is_indexed(state, document)
            && let Some(key) = hashed::only_key(state, document)?
        {
            collector.add_key(key)?;
        }
        return Ok(collector.keys);
    }
    if let Some(keys) = scalar_keys(state, document)? {
        return Ok(keys);
    }
    for values in value_tuples(state, document)? {
        collector.add_key(encode_tuple(state, &values)?)?;
    }
    for (field, path) in state.paths.iter().enumerate() {
        if meets_array(document, path) {
            collector.mark_multikey(field);
        }
    }
    let mut keys = collector.keys;
    if let (Some(part), Some(key), 0) = (&state.part, keys.keys.first(), keys.multikey) {
        keys.stored_part = part.part_to_store(&state.index, &state.paths, document, key)?;
    }
    Ok(keys)
}

/// Returns the only key of a document with scalars at the top level, without the general expansion of paths. Returns `None`
/// for any other document or index.
fn scalar_keys(state: &IndexState, document: &RawDocument) -> Result<Option<IndexKeys>> {
    let are_top_level = state.paths.iter().all(|path| path.parts().len() == 1);
    if !are_top_level || state.partial.is_some() {
        return Ok(None);
    }
    let names = state.paths.iter().map(Path::as_str);
    let Some(fields) = value::scalar_fields(document, names) else {
        return Ok(None);
    };
    let key = encode_key(state, fields.values.iter().copied())?;
    let mut keys = IndexKeys::default();
    if state.part.is_some() {
        keys.stored_part = part::scalar_part_to_store(&state.index, &fields, &key);
    }
    keys.keys.insert(key);
    Ok(Some(keys))
}

/// A collector of a document's keys, up to a size limit.
pub(super) struct KeyCollector<'n> {
    index: &'n str,
    keys: IndexKeys,
    bytes: usize,
}

impl KeyCollector<'_> {
    fn new(index: &str) -> KeyCollector<'_> {
        KeyCollector {
            index,
            keys: IndexKeys::default(),
            bytes: 0,
        }
    }

    /// Adds a key if it is new.
    ///
    /// # Errors
    /// The keys together have too many bytes.
    pub(super) fn add_key(&mut self, key: Vec<u8>) -> Result<()> {
        self.bytes += key.len();
        self.keys.keys.insert(key);
        if self.bytes > MAX_KEY_BYTES {
            let message = format!(
                "the keys of the document in the index {} have more than {MAX_KEY_BYTES} bytes",
                self.index
            );
            return Err(Error::with_server_code(
                code::TRANSACTION_TOO_LARGE,
                message,
            ));
        }
        Ok(())
    }

    /// Records that a field's path contains an array.
    pub(super) fn mark_multikey(&mut self, field: usize) {
        self.keys.multikey |= 1 << field;
    }
}

/// Returns the error for a key of `document` that another document already has in a unique index.
pub(crate) fn duplicate_error(
    collection: &str,
    state: &IndexState,
    document: &RawDocument,
    key: &[u8],
) -> Error {
    let key_value = value_tuples(state, document).ok().and_then(|tuples| {
        let mut tuples = tuples.iter();
        tuples
            .find(|values| encode_tuple(state, values).is_ok_and(|encoded| encoded == key))
            .map(|values| key_document(state, values))
    });
    Error::from_duplicate_key(DuplicateKey {
        collection: collection.to_owned(),
        index: state.index.name.clone(),
        key_pattern: state.index.key_pattern(),
        key_value: key_value.unwrap_or_default(),
        collation: state.index.collation.as_ref().map(Collation::to_document),
    })
}

/// Whether the index includes a document.
fn is_indexed(state: &IndexState, document: &RawDocument) -> bool {
    let is_accepted = |filter: &Filter| match state.partial_collator() {
        Some(collator) => filter.accepts(&collation::keyed_document(document, collator)),
        None => filter.accepts(document),
    };
    state.partial.as_ref().is_none_or(is_accepted)
}

type ValueTuple<'d> = Vec<Option<RawBsonRef<'d>>>;

fn value_tuples<'d>(state: &IndexState, document: &'d RawDocument) -> Result<Vec<ValueTuple<'d>>> {
    if !is_indexed(state, document) {
        return Ok(Vec::new());
    }
    let mut tuples = key_tuples(&state.paths, document).map_err(key_error)?;
    if state.index.sparse {
        tuples.retain(|values| values.iter().any(Option::is_some));
    }
    Ok(tuples)
}

/// Returns the key with these values. A missing value counts as null.
fn encode_tuple(state: &IndexState, values: &[Option<RawBsonRef<'_>>]) -> Result<Vec<u8>> {
    let values = values.iter();
    encode_key(state, values.map(|value| value.unwrap_or(RawBsonRef::Null)))
}

fn encode_key<'d>(
    state: &IndexState,
    values: impl Iterator<Item = RawBsonRef<'d>>,
) -> Result<Vec<u8>> {
    let mut key = Vec::with_capacity(state.index.keys.len() * 16);
    let collator = state.collator.as_ref();
    for ((_, direction), value) in state.index.keys.iter().zip(values) {
        encode_indexed(value, *direction, collator, &mut key)?;
    }
    Ok(key)
}

fn key_document(state: &IndexState, values: &[Option<RawBsonRef<'_>>]) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for ((path, _), value) in state.index.keys.iter().zip(values) {
        append_field(&mut document, path, value.unwrap_or(RawBsonRef::Null));
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
        KeyError::ParallelArrays(first, second) => {
            let message =
                format!("cannot index parallel arrays [{first}] [{second}]; use two indexes");
            Error::with_server_code(code::CANNOT_INDEX_PARALLEL_ARRAYS, message)
        }
        KeyError::AmbiguousPosition(name) => {
            let message = format!("'{name}' is both a position and a field's name in an array");
            Error::with_server_code(code::AMBIGUOUS_INDEX_KEY, message)
        }
    }
}
