//! The keys that an index holds for a document.
//!
//! Arrays are expanded as [`key_tuples`] does. An empty array counts as undefined, a missing field as
//! null. [Hashed](super::hashed) and [wildcard](super::wildcard) indexes have keys of their own.

use std::collections::BTreeSet;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::{Collation, IndexState, collation, hashed, wildcard};
use crate::document::append;
use crate::error::{DuplicateKey, Error, Result, code};
use crate::filter::Filter;
use crate::key::value::encode_collated;
use crate::path::{KeyError, Path, key_tuples};
use crate::value;

/// How many bytes the keys of one document in one index can have: each array element has a key that
/// repeats the other fields. MongoDB has no number for this; what it can do depends on its memory.
const MAX_BYTES: usize = 128 << 20;

/// The keys of one document in one index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The encoded keys, without the prefix of the index.
    pub(crate) keys: BTreeSet<Vec<u8>>,
    /// The fields whose paths meet an array, one bit each.
    pub(crate) multikey: u64,
    /// What stands beside the key, if no field meets an array and there is only one.
    pub(crate) beside: Vec<u8>,
}

impl Keys {
    /// How much memory they take, more or less.
    pub(crate) fn bytes(&self) -> usize {
        // A place in the set, and an allocation.
        self.keys.iter().map(|key| key.len() + 64).sum()
    }
}

/// The keys of `document`: none if the index leaves it out.
///
/// # Errors
/// Parallel arrays, ambiguous positions, too deep nesting, too many bytes.
pub(crate) fn keys_of(state: &IndexState, document: &RawDocument) -> Result<Keys> {
    let mut collector = Collector::new(&state.index.name);
    if let Some(coverage) = &state.coverage {
        if is_indexed(state, document) {
            wildcard::collect(coverage, document, state.collator.as_ref(), &mut collector)?;
        }
        return Ok(collector.keys);
    }
    if state.index.hashed.is_some() {
        if is_indexed(state, document)
            && let Some(key) = hashed::key_of(state, document)?
        {
            collector.add(key)?;
        }
        return Ok(collector.keys);
    }
    for values in tuples(state, document)? {
        collector.add(encode_key(state, &values)?)?;
    }
    for (field, path) in state.paths.iter().enumerate() {
        if meets_array(document, path) {
            collector.mark_multikey(field);
        }
    }
    let mut keys = collector.keys;
    if let (Some(part), Some(key), 0) = (&state.part, keys.keys.first(), keys.multikey) {
        keys.beside = part.beside(&state.index, &state.paths, document, key)?;
    }
    Ok(keys)
}

/// Takes the keys of a document up to a limit.
pub(super) struct Collector<'n> {
    index: &'n str,
    keys: Keys,
    bytes: usize,
}

impl Collector<'_> {
    fn new(index: &str) -> Collector<'_> {
        Collector {
            index,
            keys: Keys::default(),
            bytes: 0,
        }
    }

    /// Adds a key, if it is not there.
    ///
    /// # Errors
    /// All keys together have too many bytes.
    pub(super) fn add(&mut self, key: Vec<u8>) -> Result<()> {
        self.bytes += key.len();
        self.keys.keys.insert(key);
        if self.bytes > MAX_BYTES {
            let message = format!(
                "the keys of the document in the index {} have more than {MAX_BYTES} bytes",
                self.index
            );
            return Err(Error::server(code::TRANSACTION_TOO_LARGE, message));
        }
        Ok(())
    }

    /// Says that a field's path has met an array.
    pub(super) fn mark_multikey(&mut self, field: usize) {
        self.keys.multikey |= 1 << field;
    }
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
        collation: state.index.collation.as_ref().map(Collation::to_document),
    })
}

/// Whether a document is one of those that the index is about.
fn is_indexed(state: &IndexState, document: &RawDocument) -> bool {
    let accepts = |filter: &Filter| match state.partial_collator() {
        Some(collator) => filter.accepts(&collation::keyed(document, collator)),
        None => filter.accepts(document),
    };
    state.partial.as_ref().is_none_or(accepts)
}

type Tuple<'d> = Vec<Option<RawBsonRef<'d>>>;

fn tuples<'d>(state: &IndexState, document: &'d RawDocument) -> Result<Vec<Tuple<'d>>> {
    if !is_indexed(state, document) {
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
    let collator = state.collator.as_ref();
    for ((_, direction), value) in state.index.keys.iter().zip(values) {
        let value = value.unwrap_or(RawBsonRef::Null);
        encode_collated(value, *direction, collator, &mut key)?;
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
