//! The shortest way of an update: new values for existing fields at the top level, written into a copy of the bytes.
//!
//! The general way builds a [tree](super::node), which takes several times as long.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::node::UpdateNode;
use super::operation::PlainOperation;
use crate::change::UpdatedPath;
use crate::error::Result;
use crate::value::{self, PlainField};

/// A document with new values, and the places that count as modified.
pub(super) struct PatchedDocument {
    pub(super) document: RawDocumentBuf,
    pub(super) places: Vec<UpdatedPath>,
}

/// A new value of a field.
struct Patch<'d> {
    field: PlainField<'d>,
    kind: u8,
    value: Vec<u8>,
}

/// Runs operations on fields at the top level. Returns `None` if the update needs a tree: a field is missing, or an old or a new value
/// is a document, an array or of a rare type.
///
/// # Errors
/// An operator does not support the value of its field.
pub(super) fn apply_plain<'o>(
    operations: impl Iterator<Item = PlainOperation<'o>> + Clone,
    document: &RawDocument,
) -> Result<Option<PatchedDocument>> {
    let names = operations.clone().map(|operation| operation.name);
    let Some(plain) = value::plain_fields(document, names) else {
        return Ok(None);
    };
    let mut patches = Vec::with_capacity(plain.fields.len());
    let mut places = Vec::with_capacity(plain.fields.len());
    for (operation, field) in operations.zip(plain.fields) {
        let mut node = UpdateNode::Original(field.value);
        if !operation
            .operator
            .change_existing(operation.name, &mut node)?
        {
            continue;
        }
        let Some((kind, value)) = node.with_value(encode_plain) else {
            return Ok(None);
        };
        places.push(UpdatedPath {
            path: operation.name.to_owned(),
            // Only an array has elements to append.
            appended: false,
        });
        patches.push(Patch { field, kind, value });
    }
    patches.sort_by_key(|patch| patch.field.kind_at);
    let patched = write_patches(document, &patches);
    Ok(patched.map(|document| PatchedDocument { document, places }))
}

/// Writes the new values into a copy of the document.
fn write_patches(document: &RawDocument, patches: &[Patch<'_>]) -> Option<RawDocumentBuf> {
    let old = document.as_bytes();
    let added: usize = patches.iter().map(|patch| patch.value.len()).sum();
    let mut new = Vec::with_capacity(old.len() + added);
    let mut copied = 0;
    for Patch { field, kind, value } in patches {
        new.extend_from_slice(old.get(copied..field.kind_at)?);
        new.push(*kind);
        new.extend_from_slice(old.get(field.kind_at + 1..field.bytes.start)?);
        new.extend_from_slice(value);
        copied = field.bytes.end;
    }
    new.extend_from_slice(old.get(copied..)?);
    let length = i32::try_from(new.len()).ok()?;
    new.first_chunk_mut()
        .map(|prefix| *prefix = length.to_le_bytes())?;
    RawDocumentBuf::from_bytes(new).ok()
}

/// Returns the type and the bytes of a value. Returns `None` for a document, an array or a rare type.
fn encode_plain(value: RawBsonRef<'_>) -> Option<(u8, Vec<u8>)> {
    let bytes = match value {
        RawBsonRef::Double(value) => value.to_le_bytes().to_vec(),
        RawBsonRef::Int32(value) => value.to_le_bytes().to_vec(),
        RawBsonRef::Int64(value) => value.to_le_bytes().to_vec(),
        RawBsonRef::DateTime(value) => value.timestamp_millis().to_le_bytes().to_vec(),
        RawBsonRef::ObjectId(value) => value.bytes().to_vec(),
        RawBsonRef::Boolean(value) => vec![u8::from(value)],
        RawBsonRef::Null => Vec::new(),
        RawBsonRef::String(text) => {
            let length = i32::try_from(text.len() + 1).ok()?;
            [&length.to_le_bytes(), text.as_bytes(), &[0]].concat()
        }
        _ => return None,
    };
    Some((value.element_type() as u8, bytes))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use proptest::prelude::*;

    use super::super::ParsedUpdate;
    use super::super::node::UpdateNode;
    use super::super::tests::apply_update;
    use super::super::{Filter, UpdateKind};
    use super::*;

    /// Applies an update in both ways. Returns whether the short way applies.
    fn assert_same_in_both_ways(document: &RawDocument, update: &RawDocument) -> bool {
        let UpdateKind::Operators(operations) = ParsedUpdate::parse(update, &[]).unwrap().0 else {
            panic!("{update:?} has no operators");
        };
        let Some(plain) = operations.plain_operations() else {
            return false;
        };
        let short = apply_plain(plain, document);
        let mut root = UpdateNode::from_document(document);
        let filter = Filter::parse(&rawdoc! {}).unwrap();
        let places = operations.apply_to(document, &filter, &mut root, false);
        match (short, places) {
            (Ok(None), _) => return false,
            (Ok(Some(short)), Ok(places)) => {
                assert_eq!(short.places, places, "{document:?} {update:?}");
                let general = root.into_document();
                assert_eq!(short.document, general, "{document:?} {update:?}");
            }
            (Err(short), Err(general)) => {
                assert_eq!(short.to_string(), general.to_string());
                assert_eq!(short.code(), general.code());
            }
            (short, places) => {
                let short = short.map(|short| short.is_some());
                panic!("{document:?} {update:?}: {short:?} {places:?}");
            }
        }
        true
    }

    #[test]
    fn plain_values_are_patched() {
        let document = rawdoc! { "_id": 1, "a": 5, "b": "text", "c": [1], "d": 1.5, "e": 7_i64 };
        for update in [
            rawdoc! { "$inc": { "a": 1 } },
            rawdoc! { "$set": { "b": "a longer text", "a": "x" }, "$inc": { "e": -1 } },
            rawdoc! { "$set": { "a": 5 }, "$mul": { "d": 2 } },
            rawdoc! { "$max": { "a": 9 }, "$min": { "e": 3_i64 }, "$setOnInsert": { "z": 1 } },
            rawdoc! { "$inc": { "b": 1, "a": 1 } },
            rawdoc! { "$push": { "a": 1 } },
        ] {
            assert!(assert_same_in_both_ways(&document, &update), "{update:?}");
        }
        for update in [
            rawdoc! { "$set": { "z": 1 } },
            rawdoc! { "$set": { "a": { "x": 1 } } },
            rawdoc! { "$set": { "c": 1 } },
            rawdoc! { "$set": { "_id": 1 } },
            rawdoc! { "$set": { "c.0": 1 } },
            rawdoc! { "$unset": { "a": 1 } },
            rawdoc! { "$rename": { "a": "b2" } },
        ] {
            assert!(!assert_same_in_both_ways(&document, &update), "{update:?}");
        }
    }

    #[test]
    fn a_patched_document_has_its_new_length() {
        let update = rawdoc! { "$set": { "a": "longer", "b": bson::RawBson::Null } };
        let patched = apply_update(rawdoc! { "a": 1, "b": "text", "c": 2 }, update).unwrap();
        assert_eq!(
            patched,
            rawdoc! { "a": "longer", "b": bson::RawBson::Null, "c": 2 }
        );
    }

    fn any_value() -> impl Strategy<Value = bson::RawBson> {
        prop_oneof![
            any::<i32>().prop_map(bson::RawBson::Int32),
            (-3..3_i64).prop_map(bson::RawBson::Int64),
            any::<f64>().prop_map(bson::RawBson::Double),
            "[a-c]{0,3}".prop_map(bson::RawBson::String),
            Just(bson::RawBson::Null),
            any::<bool>().prop_map(bson::RawBson::Boolean),
            Just(bson::RawBson::Document(rawdoc! { "x": 1 })),
        ]
    }

    proptest! {
        #[test]
        fn both_ways_agree(
            fields in prop::collection::vec(("[a-d]", any_value()), 0..6),
            operator in prop::sample::select(vec!["$set", "$inc", "$max", "$mul", "$setOnInsert"]),
            targets in prop::collection::btree_map("[a-d]", any_value(), 1..4),
        ) {
            let mut document = RawDocumentBuf::new();
            for (name, value) in &fields {
                crate::document::append_field(&mut document, name, value.as_raw_bson_ref());
            }
            let mut operands = RawDocumentBuf::new();
            for (name, value) in &targets {
                crate::document::append_field(&mut operands, name, value.as_raw_bson_ref());
            }
            let mut update = RawDocumentBuf::new();
            crate::document::append_field(&mut update, operator, &*operands);
            if ParsedUpdate::parse(&update, &[]).is_ok() {
                assert_same_in_both_ways(&document, &update);
            }
        }
    }
}
