//! The fast path of an update: new scalar values for existing fields, written into a copy of the bytes.
//!
//! All other updates build a [tree](super::node), which takes several times as long.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::node::UpdateNode;
use super::operation::StaticOperation;
use crate::change::UpdatedPath;
use crate::error::Result;
use crate::value::{self, FieldPosition};

/// A document with new values, and the places that count as modified.
pub(super) struct PatchedDocument {
    pub(super) document: RawDocumentBuf,
    pub(super) places: Vec<UpdatedPath>,
}

/// A new value of a field.
struct Patch {
    position: FieldPosition,
    kind: u8,
    value: Vec<u8>,
}

/// Runs operations on a document. Returns `None` if the update needs a tree: a field is missing, a path leads through an array, or an
/// old or a new value is not a scalar of a common type.
///
/// # Errors
/// An operator does not support the value of its field.
pub(super) fn apply_operations<'o>(
    operations: impl Iterator<Item = StaticOperation<'o>>,
    document: &RawDocument,
) -> Result<Option<PatchedDocument>> {
    let (mut patches, mut places) = (Vec::new(), Vec::new());
    for operation in operations {
        let names = operation.path.names().flatten();
        let Some((old, position)) = value::find_scalar(document, names) else {
            return Ok(None);
        };
        let mut node = UpdateNode::Original(old);
        if !operation
            .operator
            .change_existing(operation.dotted, &mut node)?
        {
            continue;
        }
        let Some((kind, value)) = node.with_value(encode_scalar) else {
            return Ok(None);
        };
        places.push(UpdatedPath {
            path: operation.dotted.to_owned(),
            // Only an array has elements to append.
            appended: false,
        });
        patches.push(Patch {
            position,
            kind,
            value,
        });
    }
    let patched = write_patches(document, patches);
    Ok(patched.map(|document| PatchedDocument { document, places }))
}

/// Writes the new values into a copy of the document.
fn write_patches(document: &RawDocument, mut patches: Vec<Patch>) -> Option<RawDocumentBuf> {
    let mut bytes = document.as_bytes().to_vec();
    // A patch moves only the bytes after the patch.
    patches.sort_by_key(|patch| std::cmp::Reverse(patch.position.kind_at));
    for Patch {
        position,
        kind,
        value,
    } in patches
    {
        *bytes.get_mut(position.kind_at)? = kind;
        let old = bytes.get_mut(position.value.clone())?;
        if old.len() == value.len() {
            old.copy_from_slice(&value);
            continue;
        }
        let (removed, added) = (i32::try_from(old.len()), i32::try_from(value.len()));
        let difference = added.ok()?.checked_sub(removed.ok()?)?;
        bytes.splice(position.value, value);
        for document_at in position.documents {
            let length = bytes.get_mut(document_at..)?.first_chunk_mut()?;
            *length = i32::from_le_bytes(*length)
                .checked_add(difference)?
                .to_le_bytes();
        }
    }
    RawDocumentBuf::from_bytes(bytes).ok()
}

/// Returns the type and the bytes of a scalar of a common type.
fn encode_scalar(value: RawBsonRef<'_>) -> Option<(u8, Vec<u8>)> {
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
    use crate::collation::ValueOrder;

    /// Applies an update in both ways. Returns whether the fast path applies.
    fn assert_same_in_both_ways(document: &RawDocument, update: &RawDocument) -> bool {
        let UpdateKind::Operators(operations) =
            ParsedUpdate::parse(update, &[], ValueOrder::SIMPLE)
                .unwrap()
                .0
        else {
            panic!("{update:?} has no operators");
        };
        let Some(few) = operations.static_operations() else {
            return false;
        };
        let fast = apply_operations(few, document);
        let mut root = UpdateNode::from_document(document);
        let filter = Filter::parse(&rawdoc! {}).unwrap();
        let places = operations.apply_to(document, &filter, &mut root, false);
        match (fast, places) {
            (Ok(None), _) => return false,
            (Ok(Some(fast)), Ok(places)) => {
                assert_eq!(fast.places, places, "{document:?} {update:?}");
                let general = root.into_document();
                assert_eq!(fast.document, general, "{document:?} {update:?}");
            }
            (Err(fast), Err(general)) => {
                assert_eq!(fast.to_string(), general.to_string());
                assert_eq!(fast.code(), general.code());
            }
            (fast, places) => {
                let fast = fast.map(|fast| fast.is_some());
                panic!("{document:?} {update:?}: {fast:?} {places:?}");
            }
        }
        true
    }

    #[test]
    fn scalars_are_patched() {
        let document = rawdoc! { "_id": 1, "a": 5, "b": "text", "c": [1], "d": 1.5, "e": 7_i64,
            "f": { "i": "text", "g": { "h": "x", "k": 1 }, "j": 1 },
        };
        for update in [
            rawdoc! { "$inc": { "a": 1 } },
            rawdoc! { "$set": { "b": "a longer text", "a": "x" }, "$inc": { "e": -1 } },
            rawdoc! { "$set": { "a": 5 }, "$mul": { "d": 2 } },
            rawdoc! { "$max": { "a": 9 }, "$min": { "e": 3_i64 }, "$setOnInsert": { "z": 1 } },
            rawdoc! { "$inc": { "b": 1, "a": 1 } },
            rawdoc! { "$push": { "a": 1 } },
            rawdoc! { "$set": { "f.g.h": "longer", "f.i": 2, "a": "x" }, "$inc": { "f.j": 1 } },
            rawdoc! { "$inc": { "f.g.h": 1 } },
        ] {
            assert!(assert_same_in_both_ways(&document, &update), "{update:?}");
        }
        for update in [
            rawdoc! { "$set": { "z": 1 } },
            rawdoc! { "$set": { "f.z": 1 } },
            rawdoc! { "$set": { "f.g": 1 } },
            rawdoc! { "$set": { "_id.a": 1 } },
            rawdoc! { "$set": { "a": { "x": 1 } } },
            rawdoc! { "$set": { "c": 1 } },
            rawdoc! { "$set": { "_id": 1 } },
            rawdoc! { "$set": { "c.0": 1 } },
            rawdoc! { "$unset": { "a": 1 } },
            rawdoc! { "$rename": { "a": "b2" } },
            rawdoc! { "$set": { "a": 1, "b": 1, "d": 1, "e": 1, "f.i": 1, "f.j": 1, "f.g.h": 1, "f.g.k": 1, "z": 1 } },
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
            targets in prop::collection::btree_map("[a-d](\\.x)?", any_value(), 1..4),
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
            if ParsedUpdate::parse(&update, &[], ValueOrder::SIMPLE).is_ok() {
                assert_same_in_both_ways(&document, &update);
            }
        }
    }
}
