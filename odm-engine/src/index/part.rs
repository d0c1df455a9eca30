//! The part of a document that an index entry contains. A query that needs only this part does not read the document.
//!
//! A key does not always determine the part. `1` and `1.0` have the same key, and so have a missing field and null. The key also
//! lacks the order of the fields in the document. If the key decodes to a different part, the entry stores the difference next to the
//! key: a [type](DecodedType) for each of the first fields, or the whole part. Most entries store nothing.

use std::sync::Arc;

use bson::raw::CString;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::Index;
use crate::document::append_field;
use crate::error::{Error, Result};
use crate::key::value::KeyDecoder;
use crate::path::{Path, PathPart};
use crate::projection::Projection;
use crate::value;

/// The projection that computes the part of a document.
#[derive(Debug)]
pub(crate) struct PartProjection {
    projection: Projection,
}

impl PartProjection {
    /// Returns `None` if no projection can select the fields of the index, because one field contains another field.
    pub(super) fn new(paths: &[Path]) -> Option<PartProjection> {
        let mut fields = RawDocumentBuf::new();
        for path in paths {
            append_field(&mut fields, path.as_str(), true);
        }
        if !paths.iter().any(|path| path.as_str() == "_id") {
            append_field(&mut fields, "_id", false);
        }
        let projection = Projection::parse(&fields, &Arc::default()).ok()?;
        Some(PartProjection { projection })
    }

    /// Returns the part to store for a document's only key; empty if the key determines the part. The document must have no array
    /// in these fields.
    pub(super) fn part_to_store(
        &self,
        index: &Index,
        paths: &[Path],
        document: &RawDocument,
        key: &[u8],
    ) -> Result<Vec<u8>> {
        let part = self.projection.apply_without_filter(document)?;
        let types = types_of_part(index, paths, &part, key);
        // The types lack the order of the fields, and fields of other names.
        let is_determined = types.as_ref().is_some_and(|types| {
            let rebuilt = rebuild_part(index, paths, key, types);
            rebuilt.is_some_and(|rebuilt| rebuilt.as_bytes() == part.as_bytes())
        });
        Ok(match types {
            Some(types) if is_determined => types,
            _ => part.into_bytes(),
        })
    }
}

/// The type of a value in a part, if the key does not determine the type. The number is a byte of a stored part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DecodedType {
    /// The type that the key decodes to.
    OfKey = 0,
    /// A double. Three types of numbers have the number of their BSON type.
    Double = 0x01,
    Int32 = 0x10,
    Int64 = 0x12,
    /// The document has no such field. The key decodes to null.
    Missing = 0xff,
}

/// The largest number of types in a stored part. A longer part is a BSON document, which has at least 5 bytes.
const MAX_TYPES: usize = 4;

impl DecodedType {
    const ALL: [DecodedType; 5] = [
        DecodedType::OfKey,
        DecodedType::Double,
        DecodedType::Int32,
        DecodedType::Int64,
        DecodedType::Missing,
    ];

    /// Returns the type with which a decoded value becomes `value`, or a missing value.
    fn find(decoded: &RawBson, value: Option<RawBsonRef<'_>>) -> Option<DecodedType> {
        DecodedType::ALL.into_iter().find(|candidate| {
            let restored = candidate.restore(decoded.clone());
            match (restored, value) {
                (Some(None), None) => true,
                (Some(Some(restored)), Some(value)) => is_same(&restored, value),
                _ => false,
            }
        })
    }

    fn from_byte(byte: u8) -> Option<DecodedType> {
        let mut all = DecodedType::ALL.into_iter();
        all.find(|candidate| *candidate as u8 == byte)
    }

    /// Returns the value of the document for a decoded value, or `Some(None)` for a missing value. Returns `None` if the value cannot
    /// have this type.
    fn restore(self, decoded: RawBson) -> Option<Option<RawBson>> {
        let restored = match (self, decoded) {
            (DecodedType::OfKey, decoded) => decoded,
            (DecodedType::Missing, RawBson::Null) => return Some(None),
            (DecodedType::Double, RawBson::Int32(number)) => RawBson::Double(number.into()),
            (DecodedType::Double, RawBson::Int64(number)) => RawBson::Double(number as f64),
            (DecodedType::Int64, RawBson::Int32(number)) => RawBson::Int64(number.into()),
            (DecodedType::Int64, RawBson::Double(number)) => RawBson::Int64(number as i64),
            _ => return None,
        };
        Some(Some(restored))
    }
}

fn is_same(decoded: &RawBson, value: RawBsonRef<'_>) -> bool {
    match value {
        // Equal floating-point numbers can have different bytes.
        RawBsonRef::Double(_) => value::same_bytes(decoded.as_raw_bson_ref(), value),
        _ => decoded.as_raw_bson_ref() == value,
    }
}

/// Returns the bytes for these types; `None` if they are too many.
fn encode_types(mut types: Vec<u8>) -> Option<Vec<u8>> {
    while types.last() == Some(&(DecodedType::OfKey as u8)) {
        types.pop();
    }
    (types.len() <= MAX_TYPES).then_some(types)
}

/// Returns the types of the values of a part, if the values of the key can have these types.
fn types_of_part(index: &Index, paths: &[Path], part: &RawDocument, key: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = KeyDecoder::new(key);
    let mut types = Vec::with_capacity(paths.len());
    for (path, (_, direction)) in paths.iter().zip(&index.keys) {
        let decoded = decoder.next_value(*direction)?;
        let value = value_at(part, path.parts());
        types.push(DecodedType::find(&decoded, value)? as u8);
    }
    encode_types(types)
}

fn value_at<'d>(document: &'d RawDocument, path: &[PathPart]) -> Option<RawBsonRef<'d>> {
    let (first, rest) = path.split_first()?;
    let value = document.get(first.name()).ok()??;
    match rest {
        [] => Some(value),
        rest => value_at(value.as_document()?, rest),
    }
}

/// Returns the part to store for a document's only key; empty if the key determines the part. `fields` are the fields of the index, at
/// the top level of the document.
pub(super) fn scalar_part_to_store(
    index: &Index,
    fields: &value::ScalarFields<'_>,
    key: &[u8],
) -> Vec<u8> {
    // The types lack the order of the fields.
    if fields.are_in_order()
        && let Some(types) = types_of_scalars(index, &fields.values, key)
    {
        return types;
    }
    let mut part = RawDocumentBuf::new();
    for place in &fields.order {
        if let (Some((path, _)), Some(value)) = (index.keys.get(*place), fields.values.get(*place))
        {
            append_field(&mut part, path, *value);
        }
    }
    part.into_bytes()
}

/// Returns the types of the values, if the values of the key can have these types.
fn types_of_scalars(index: &Index, values: &[RawBsonRef<'_>], key: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = KeyDecoder::new(key);
    let types = index.keys.iter().zip(values);
    let types = types.map(|((_, direction), value)| {
        let decoded = decoder.next_value(*direction)?;
        DecodedType::find(&decoded, Some(*value)).map(|found| found as u8)
    });
    types.collect::<Option<Vec<u8>>>().and_then(encode_types)
}

/// Returns the part of a document from the key and stored part of its entry.
pub(super) fn read_part(
    index: &Index,
    paths: &[Path],
    key: &[u8],
    stored_part: &[u8],
) -> Result<RawDocumentBuf> {
    let damaged = || Error::damaged(format!("a key of the index {} cannot be read", index.name));
    if stored_part.len() <= MAX_TYPES {
        return rebuild_part(index, paths, key, stored_part).ok_or_else(damaged);
    }
    RawDocumentBuf::from_bytes(stored_part.to_vec()).map_err(|_| damaged())
}

/// Decodes the part from the key and the stored types.
fn rebuild_part(index: &Index, paths: &[Path], key: &[u8], types: &[u8]) -> Option<RawDocumentBuf> {
    let mut decoder = KeyDecoder::new(key);
    let mut fields = OrderedFields::default();
    for (position, (path, (_, direction))) in paths.iter().zip(&index.keys).enumerate() {
        let decoded = decoder.next_value(*direction)?;
        let byte = types.get(position).copied();
        let stored = byte.map_or(Some(DecodedType::OfKey), DecodedType::from_byte)?;
        if let Some(value) = stored.restore(decoded)? {
            fields.insert(path.parts(), value);
        }
    }
    (decoder.is_at_end()).then(|| fields.into_document())?
}

/// Fields in the order of the index. Fields of the same subdocument are grouped.
#[derive(Default)]
struct OrderedFields<'p>(Vec<(&'p str, FieldNode<'p>)>);

enum FieldNode<'p> {
    Value(RawBson),
    Inner(OrderedFields<'p>),
}

impl<'p> OrderedFields<'p> {
    fn insert(&mut self, path: &'p [PathPart], value: RawBson) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        if rest.is_empty() {
            self.0.push((first.name(), FieldNode::Value(value)));
            return;
        }
        let known = self.0.iter_mut().find(|(name, _)| *name == first.name());
        if let Some((_, FieldNode::Inner(inner))) = known {
            inner.insert(rest, value);
        } else {
            let mut inner = OrderedFields::default();
            inner.insert(rest, value);
            self.0.push((first.name(), FieldNode::Inner(inner)));
        }
    }

    fn into_document(self) -> Option<RawDocumentBuf> {
        let mut document = RawDocumentBuf::new();
        for (name, node) in self.0 {
            let value = match node {
                FieldNode::Value(value) => value,
                FieldNode::Inner(inner) => RawBson::Document(inner.into_document()?),
            };
            document.append(CString::try_from(name).ok()?, value);
        }
        Some(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Direction;
    use crate::index::IndexState;
    use crate::index::keys::keys_of;
    use bson::{Bson, doc};
    use proptest::prelude::*;

    fn state(paths: &[&str]) -> IndexState {
        let keys = paths.iter().enumerate().map(|(position, path)| {
            let directions = [Direction::Ascending, Direction::Descending];
            (*path, directions[position % 2])
        });
        IndexState::new(1, 1, Index::new(keys)).unwrap()
    }

    fn only_entry(state: &IndexState, document: &bson::Document) -> (Vec<u8>, Vec<u8>) {
        let document = RawDocumentBuf::try_from(document).unwrap();
        let keys = keys_of(state, &document).unwrap();
        (keys.keys.into_iter().next().unwrap(), keys.stored_part)
    }

    #[test]
    fn plain_values_store_no_extra_part() {
        let state = state(&["a", "b.c", "b.d", "e"]);
        let id = bson::oid::ObjectId::new();
        let (_, rest) = only_entry(
            &state,
            &doc! { "a": 1, "b": { "c": "x", "d": 2.5 }, "e": id },
        );
        assert!(rest.is_empty());
    }

    #[test]
    fn a_part_that_differs_from_the_key_is_stored() {
        let state = state(&["a", "b"]);
        for (document, types) in [
            (doc! { "a": 1.0, "b": 1 }, &[0x01][..]),
            (doc! { "a": 1, "b": 1_i64 }, &[0x00, 0x12]),
            (doc! { "a": 1_i64 << 60, "b": 2.5 }, &[0x12]),
            (doc! { "a": 1 }, &[0x00, 0xff]),
            (doc! { "a": 1, "b": Bson::Null }, &[]),
        ] {
            assert_eq!(only_entry(&state, &document).1, types, "{document}");
        }
        for document in [
            doc! { "b": 1, "a": 1 },
            doc! { "a": 1, "b": Bson::Symbol("x".into()) },
            doc! { "a": -0.0, "b": 1 },
        ] {
            let part = RawDocumentBuf::try_from(&document).unwrap();
            assert_eq!(
                only_entry(&state, &document).1,
                part.as_bytes(),
                "{document}"
            );
        }
    }

    /// Entries of earlier engines have a document where this engine stores types.
    #[test]
    fn a_document_part_is_read_in_place_of_types() {
        let state = state(&["a", "b"]);
        let document = doc! { "a": 1.0, "b": 1_i64 };
        let (key, types) = only_entry(&state, &document);
        let part = RawDocumentBuf::try_from(&document).unwrap();
        for stored in [types.as_slice(), part.as_bytes()] {
            let read = state.read_part(&key, stored).unwrap();
            assert_eq!(read.as_bytes(), part.as_bytes());
        }
        for damaged in [&[0x07][..], &[0xff], &[1, 2, 3, 4, 5]] {
            assert!(state.read_part(&key, damaged).unwrap_err().is_damaged());
        }
    }

    fn any_value() -> impl Strategy<Value = Bson> {
        let scalar = prop_oneof![
            any::<i32>().prop_map(Bson::from),
            any::<i64>().prop_map(Bson::from),
            any::<f64>().prop_map(Bson::from),
            (-5..5_i32).prop_map(|number| Bson::from(f64::from(number))),
            (-5..5_i64).prop_map(Bson::from),
            Just(Bson::Decimal128("1.0".parse().unwrap())),
            Just(Bson::Null),
            Just(Bson::Double(-0.0)),
            "[a\0]{0,3}".prop_map(Bson::from),
            "[a]{0,3}".prop_map(Bson::Symbol),
            any::<bool>().prop_map(Bson::from),
            any::<i64>().prop_map(|millis| Bson::DateTime(bson::DateTime::from_millis(millis))),
        ];
        scalar.prop_recursive(2, 6, 3, |inner| {
            let fields = prop::collection::btree_map("[bcx]", inner.clone(), 0..3);
            prop_oneof![
                fields.prop_map(|fields| Bson::Document(fields.into_iter().collect())),
                prop::collection::vec(inner, 0..2)
                    .prop_map(|items| Bson::Document(doc! { "x": items })),
            ]
        })
    }

    proptest! {
        #[test]
        fn scalar_parts_equal_projected_parts(
            a in any_value(),
            b in any_value(),
            paths in prop::sample::select(vec![&["a", "b"][..], &["b", "a"], &["b", "a", "_id"], &["_id", "a", "b"]]),
        ) {
            let state = state(paths);
            let document = RawDocumentBuf::try_from(&doc! { "_id": 7, "a": a, "z": 1, "b": b }).unwrap();
            let names = state.paths.iter().map(Path::as_str);
            if let Some(fields) = value::scalar_fields(&document, names) {
                prop_assert_eq!(fields.are_in_order(), paths.is_sorted());
                let keys = keys_of(&state, &document).unwrap();
                let key = keys.keys.first().unwrap();
                let part = state.part.as_ref().unwrap();
                let projected = part.part_to_store(&state.index, &state.paths, &document, key);
                prop_assert_eq!(&keys.stored_part, &projected.unwrap());
            }
        }

        #[test]
        fn the_stored_part_equals_the_document_bytes(
            fields in prop::collection::vec((prop::sample::select(vec!["a", "b", "z"]), any_value()), 0..4),
        ) {
            let document: bson::Document = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let state = state(&["a", "b.c", "b.d"]);
            let raw = RawDocumentBuf::try_from(&document).unwrap();
            let keys = keys_of(&state, &raw).unwrap();
            if keys.multikey == 0 {
                let key = keys.keys.iter().next().unwrap();
                let part = state.read_part(key, &keys.stored_part).unwrap();
                let projection = doc! { "a": 1, "b.c": 1, "b.d": 1, "_id": 0 };
                let projection = RawDocumentBuf::try_from(&projection).unwrap();
                let expected = Projection::parse(&projection, &Arc::default()).unwrap();
                let expected = expected.apply_without_filter(&raw).unwrap();
                prop_assert_eq!(part.as_bytes(), expected.as_bytes());
            }
        }
    }
}
