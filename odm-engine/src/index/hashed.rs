//! Hashed indexes: the entries contain an 8-byte hash in place of one field's value.
//!
//! ```json
//! { "key": { "customer": "hashed" } }
//! { "key": { "country": 1, "customer": "hashed" } }
//! ```
//!
//! Equal values have the same hash. The order of hashes is meaningless, and different values may share a hash. So the filter
//! checks every candidate again.

use bson::{RawBsonRef, RawDocument};

use super::{Index, IndexState};
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::key::value::encode_indexed;
use crate::path::Path;
use crate::value;

/// The kind of a hashed field in a key.
pub(super) const KIND: &str = "hashed";

/// Returns the hash for a value with this encoding. Equal values have equal encodings, and so equal hashes.
pub(crate) fn hash_encoding(encoded: &[u8]) -> [u8; 8] {
    let mut hash = [0; 8];
    for (byte, digest) in hash.iter_mut().zip(md5::compute(encoded).0) {
        *byte = digest;
    }
    hash
}

/// Refuses definitions that a hashed index does not allow.
pub(super) fn check_index(index: &Index) -> Result<()> {
    let Some(path) = &index.hashed else {
        return Ok(());
    };
    if !index.keys.iter().any(|(field, _)| field == path) {
        let message = format!("the hashed field '{path}' is not a field of the index");
        return Err(Error::with_server_code(code::CANNOT_CREATE_INDEX, message));
    }
    if index.unique {
        let message = "a hashed index cannot be unique; use an ordinary index";
        return Err(Error::with_server_code(code::HASHED_UNIQUE_INDEX, message));
    }
    Ok(())
}

/// Returns a document's only key in a hashed index, or `None` if the index is sparse and the document has none of its fields.
///
/// # Errors
/// An array in a field or on the path to a field.
pub(super) fn only_key(state: &IndexState, document: &RawDocument) -> Result<Option<Vec<u8>>> {
    let mut key = Vec::with_capacity(state.paths.len() * 16);
    let mut has_value = false;
    let collator = state.collator.as_ref();
    for (path, (name, direction)) in state.paths.iter().zip(&state.index.keys) {
        let value = value_at(path, document)?;
        has_value |= value.is_some();
        let value = value.unwrap_or(RawBsonRef::Null);
        if state.index.is_hashed(name) {
            let mut encoded = Vec::new();
            encode_indexed(value, Direction::Ascending, collator, &mut encoded)?;
            key.extend_from_slice(&hash_encoding(&encoded));
        } else {
            encode_indexed(value, *direction, collator, &mut key)?;
        }
    }
    Ok((has_value || !state.index.sparse).then_some(key))
}

fn value_at<'d>(path: &Path, document: &'d RawDocument) -> Result<Option<RawBsonRef<'d>>> {
    let mut document = Some(document);
    let mut value = None;
    for part in path.parts() {
        value = document.and_then(|document| value::get(document, part.name()));
        if let Some(RawBsonRef::Array(_)) = value {
            let message = format!(
                "hashed indexes do not currently support array values; there is one on the path '{}'",
                path.as_str()
            );
            return Err(Error::with_server_code(
                code::ARRAY_IN_HASHED_INDEX,
                message,
            ));
        }
        document = value.and_then(|value| value.as_document());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::index::keys::keys_of;

    fn new_state(index: Index) -> IndexState {
        IndexState::new(1, 1, index).unwrap()
    }

    #[test]
    fn equal_values_of_all_types_have_the_same_hash() {
        let state = new_state(Index::new([("a", Direction::Ascending)]).hashed("a"));
        let key = |document: bson::RawDocumentBuf| keys_of(&state, &document).unwrap().keys;
        let key_of_one = key(rawdoc! { "a": 1 });
        assert_eq!(key_of_one.first().unwrap().len(), 8);
        assert_eq!(key_of_one, key(rawdoc! { "a": 1.0 }));
        let decimal: bson::Decimal128 = "1.00".parse().unwrap();
        assert_eq!(key_of_one, key(rawdoc! { "a": decimal }));
        assert_ne!(key_of_one, key(rawdoc! { "a": 1.5 }));
        let missing = key(rawdoc! {});
        assert_eq!(missing, key(rawdoc! { "a": bson::RawBson::Null }));
        // Files contain this hash, so it must not change.
        assert_eq!(
            missing.first().unwrap(),
            &[0xcb, 0xa8, 0x1a, 0xcd, 0x53, 0xfd, 0x77, 0x19]
        );
    }

    #[test]
    fn arrays_are_refused_wherever_they_are() {
        let keys = [("a.b", Direction::Ascending), ("c", Direction::Descending)];
        let state = new_state(Index::new(keys).hashed("a.b"));
        let code = |document: bson::RawDocumentBuf| {
            let keys = keys_of(&state, &document);
            keys.err().and_then(|error| error.code())
        };
        for document in [
            rawdoc! { "a": [] },
            rawdoc! { "a": [{ "b": 1 }] },
            rawdoc! { "a": { "b": [1] } },
            rawdoc! { "a": { "b": 1 }, "c": [1] },
        ] {
            assert_eq!(code(document), Some(16766));
        }
        assert_eq!(code(rawdoc! { "a": { "b": { "x": [1] } } }), None);
    }

    #[test]
    fn a_sparse_index_leaves_out_documents_without_the_fields() {
        let keys = [("a", Direction::Ascending), ("b", Direction::Ascending)];
        let state = new_state(Index::new(keys).hashed("b").sparse());
        let count = |document: bson::RawDocumentBuf| keys_of(&state, &document).unwrap().keys.len();
        assert_eq!(count(rawdoc! { "c": 1 }), 0);
        assert_eq!(count(rawdoc! { "a": 1 }), 1);
    }
}
