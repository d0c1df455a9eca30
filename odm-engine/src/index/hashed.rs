//! Hashed indexes: in the place of one field's value its entries have a number of eight bytes.
//!
//! ```json
//! { "key": { "customer": "hashed" } }
//! { "key": { "country": 1, "customer": "hashed" } }
//! ```
//!
//! Equal values have one number, so that they are found; the numbers have no order that means anything,
//! and different values may share one. A filter has the last word on what is found by them.

use bson::{RawBsonRef, RawDocument};

use super::{Index, IndexState};
use crate::direction::Direction;
use crate::error::{Error, Result, code};
use crate::key::value::encode_collated;
use crate::path::Path;
use crate::value;

/// What a field of the key is, if it is hashed.
pub(super) const KIND: &str = "hashed";

/// The number in the place of a value with this encoding, which is the same for all that are equal.
pub(crate) fn hash(encoded: &[u8]) -> [u8; 8] {
    let mut hash = [0; 8];
    for (byte, digest) in hash.iter_mut().zip(md5::compute(encoded).0) {
        *byte = digest;
    }
    hash
}

/// Refuses what a hashed index cannot be.
pub(super) fn check(index: &Index) -> Result<()> {
    let Some(path) = &index.hashed else {
        return Ok(());
    };
    if !index.keys.iter().any(|(own, _)| own == path) {
        let message = format!("the hashed field '{path}' is none of the index");
        return Err(Error::server(code::CANNOT_CREATE_INDEX, message));
    }
    if index.unique {
        let message = "a hashed index cannot be unique; use an ordinary index";
        return Err(Error::server(code::HASHED_UNIQUE_INDEX, message));
    }
    Ok(())
}

/// The only key of a document in a hashed index; none if the index is sparse, and the document has none
/// of its fields.
///
/// # Errors
/// An array in a field, or on the way to one.
pub(super) fn key_of(state: &IndexState, document: &RawDocument) -> Result<Option<Vec<u8>>> {
    let mut key = Vec::with_capacity(state.paths.len() * 16);
    let mut has_value = false;
    let collator = state.collator.as_ref();
    for (path, (name, direction)) in state.paths.iter().zip(&state.index.keys) {
        let value = value_at(path, document)?;
        has_value |= value.is_some();
        let value = value.unwrap_or(RawBsonRef::Null);
        if state.index.is_hashed(name) {
            let mut encoded = Vec::new();
            encode_collated(value, Direction::Ascending, collator, &mut encoded)?;
            key.extend_from_slice(&hash(&encoded));
        } else {
            encode_collated(value, *direction, collator, &mut key)?;
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
            return Err(Error::server(code::ARRAY_IN_HASHED_INDEX, message));
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

    fn state(index: Index) -> IndexState {
        IndexState::new(1, 1, index).unwrap()
    }

    #[test]
    fn equal_values_of_all_types_have_one_number() {
        let state = state(Index::new([("a", Direction::Ascending)]).hashed("a"));
        let key = |document: bson::RawDocumentBuf| keys_of(&state, &document).unwrap().keys;
        let one = key(rawdoc! { "a": 1 });
        assert_eq!(one.first().unwrap().len(), 8);
        assert_eq!(one, key(rawdoc! { "a": 1.0 }));
        let decimal: bson::Decimal128 = "1.00".parse().unwrap();
        assert_eq!(one, key(rawdoc! { "a": decimal }));
        assert_ne!(one, key(rawdoc! { "a": 1.5 }));
        let missing = key(rawdoc! {});
        assert_eq!(missing, key(rawdoc! { "a": bson::RawBson::Null }));
        // The number is in files.
        assert_eq!(
            missing.first().unwrap(),
            &[0xcb, 0xa8, 0x1a, 0xcd, 0x53, 0xfd, 0x77, 0x19]
        );
    }

    #[test]
    fn arrays_are_refused_wherever_they_are() {
        let keys = [("a.b", Direction::Ascending), ("c", Direction::Descending)];
        let state = state(Index::new(keys).hashed("a.b"));
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
    fn a_sparse_one_leaves_out_what_has_no_field() {
        let keys = [("a", Direction::Ascending), ("b", Direction::Ascending)];
        let state = state(Index::new(keys).hashed("b").sparse());
        let count = |document: bson::RawDocumentBuf| keys_of(&state, &document).unwrap().keys.len();
        assert_eq!(count(rawdoc! { "c": 1 }), 0);
        assert_eq!(count(rawdoc! { "a": 1 }), 1);
    }
}
