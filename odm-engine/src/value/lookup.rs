//! Lookup of a field by name, the most frequent operation of matching.
//!
//! The scan skips values by their size without decoding them, several times as fast as an iteration
//! over decoded elements.

use std::ops::Range;

use bson::oid::ObjectId;
use bson::{DateTime, RawBsonRef, RawDocument};

/// Returns the value of a field. Fields after malformed bytes are not found.
pub(crate) fn get<'d>(document: &'d RawDocument, key: &str) -> Option<RawBsonRef<'d>> {
    let field = Fields::of(document).find(|field| field.name == key.as_bytes())?;
    decode_value(field.kind, field.value).or_else(|| get_slowly(document, key))
}

/// Returns the names of the top-level fields in which two documents differ. A field that moved counts as different. `None` if a
/// document has malformed bytes.
pub(crate) fn changed_fields<'d>(
    old: &'d RawDocument,
    new: &'d RawDocument,
) -> Option<Vec<&'d [u8]>> {
    let (mut old, mut new) = (Fields::of(old), Fields::of(new));
    let mut changed = Vec::new();
    loop {
        match (old.next(), new.next()) {
            (Some(before), Some(after)) if before.name == after.name => {
                if (before.kind, before.value) != (after.kind, after.value) {
                    changed.push(before.name);
                }
            }
            (before, after) => {
                // From here, the documents have different fields. The order of fields is part of a document.
                let remaining = before.into_iter().chain(after);
                changed.extend(remaining.map(|field| field.name));
                changed.extend(old.by_ref().chain(&mut new).map(|field| field.name));
                return (old.rest.is_empty() && new.rest.is_empty()).then_some(changed);
            }
        }
    }
}

/// Whether two documents have the same bytes at a path, or both have no value there. `false` if the path leads through anything but
/// documents.
pub(crate) fn is_same_at<'n>(
    old: &RawDocument,
    new: &RawDocument,
    path: impl Iterator<Item = &'n str>,
) -> bool {
    let (mut old, mut new) = (old, new);
    for name in path {
        let field_of = |document| Fields::of(document).find(|field| field.name == name.as_bytes());
        match (field_of(old), field_of(new)) {
            (None, None) => return true,
            (Some(before), Some(after)) => {
                if (before.kind, before.value) == (after.kind, after.value) {
                    return true;
                }
                match (before.document(), after.document()) {
                    (Some(before), Some(after)) => (old, new) = (before, after),
                    _ => return false,
                }
            }
            _ => return false,
        }
    }
    false
}

/// The values of some top-level fields, in the order of their names in a request.
pub(crate) struct ScalarFields<'d> {
    pub(crate) values: Vec<RawBsonRef<'d>>,
    /// The positions in `values`, in the order of the document.
    pub(crate) order: Vec<usize>,
}

impl ScalarFields<'_> {
    /// Whether the document has the fields in the order of the request.
    pub(crate) fn are_in_order(&self) -> bool {
        self.order.is_sorted()
    }
}

/// Returns the values of top-level fields. Returns `None` unless the document has each field exactly once, with a scalar of a common
/// type.
pub(crate) fn scalar_fields<'d, 'n>(
    document: &'d RawDocument,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Option<ScalarFields<'d>> {
    let mut values = vec![None; names.clone().count()];
    let mut order = Vec::with_capacity(values.len());
    let mut fields = Fields::of(document);
    for field in &mut fields {
        let mut places = names.clone();
        let Some(place) = places.position(|name| name.as_bytes() == field.name) else {
            continue;
        };
        let slot = values.get_mut(place).filter(|slot| slot.is_none())?;
        *slot = Some(decode_scalar(&field)?);
        order.push(place);
    }
    // Malformed bytes may hide a second field with the same name.
    if !fields.rest.is_empty() {
        return None;
    }
    Some(ScalarFields {
        values: values.into_iter().collect::<Option<_>>()?,
        order,
    })
}

/// The position of a field in the bytes of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldPosition {
    /// The position of the byte with the type.
    pub(crate) kind_at: usize,
    pub(crate) value: Range<usize>,
    /// The positions of the documents that contain the field.
    pub(crate) documents: Vec<usize>,
}

/// Returns the scalar of a common type at a path, and its position. Returns `None` unless each document on the path has its field
/// exactly once.
pub(crate) fn find_scalar<'d, 'n>(
    document: &'d RawDocument,
    mut path: impl Iterator<Item = &'n str>,
) -> Option<(RawBsonRef<'d>, FieldPosition)> {
    let mut next = path.next();
    let (mut document, mut document_at) = (document, 0);
    let mut documents = Vec::with_capacity(2);
    while let Some(name) = next {
        documents.push(document_at);
        let (field, kind_at) = find_only_field(document, name)?;
        let kind_at = document_at + kind_at;
        let value_at = kind_at + 1 + field.name.len() + 1;
        next = path.next();
        if next.is_none() {
            let position = FieldPosition {
                kind_at,
                value: value_at..value_at + field.value.len(),
                documents,
            };
            return Some((decode_scalar(&field)?, position));
        }
        document = field.document()?;
        document_at = value_at;
    }
    None
}

/// Returns a field and the position of its type, if the document has the field exactly once.
fn find_only_field<'d>(document: &'d RawDocument, name: &str) -> Option<(FieldBytes<'d>, usize)> {
    let mut fields = Fields::of(document);
    let mut found = None;
    // The last byte of a document follows the fields.
    let end = document.as_bytes().len().saturating_sub(1);
    loop {
        let kind_at = end - fields.rest.len();
        let Some(field) = fields.next() else {
            break;
        };
        if field.name == name.as_bytes() && found.replace((field, kind_at)).is_some() {
            return None;
        }
    }
    // Malformed bytes may hide a second field with the same name.
    found.filter(|_| fields.rest.is_empty())
}

/// Decodes a scalar of a common type.
fn decode_scalar<'d>(field: &FieldBytes<'d>) -> Option<RawBsonRef<'d>> {
    let value = decode_value(field.kind, field.value);
    value.filter(|value| !matches!(value, RawBsonRef::Document(_)))
}

/// Whether a document begins with its only `_id`, of a common type that is allowed for ids.
pub(crate) fn begins_with_scalar_id(document: &RawDocument) -> bool {
    let mut fields = Fields::of(document);
    let is_scalar_id =
        |field: FieldBytes<'_>| field.name == b"_id" && decode_scalar(&field).is_some();
    fields.next().is_some_and(is_scalar_id) && fields.all(|field| field.name != b"_id")
}

/// Whether a document is valid BSON of common types and nests at most `depth` levels. The answer may be a false negative.
pub(crate) fn is_valid_common_bson(document: &RawDocument, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let mut fields = Fields::of(document);
    let is_valid = |field: FieldBytes<'_>| {
        str::from_utf8(field.name).is_ok()
            && match field.kind {
                0x03 | 0x04 => RawDocument::from_bytes(field.value)
                    .is_ok_and(|inner| is_valid_common_bson(inner, depth)),
                0x02 => field.value.last() == Some(&0) && decode_value(0x02, field.value).is_some(),
                kind => decode_value(kind, field.value).is_some(),
            }
    };
    fields.by_ref().all(is_valid) && fields.rest.is_empty()
}

/// The top-level fields of a document as bytes. Ends before malformed bytes.
struct Fields<'d> {
    rest: &'d [u8],
}

/// A field as bytes.
struct FieldBytes<'d> {
    kind: u8,
    name: &'d [u8],
    value: &'d [u8],
}

impl<'d> FieldBytes<'d> {
    /// Returns the value if it is a document.
    fn document(&self) -> Option<&'d RawDocument> {
        match self.kind {
            0x03 => RawDocument::from_bytes(self.value).ok(),
            _ => None,
        }
    }
}

impl<'d> Fields<'d> {
    fn of(document: &'d RawDocument) -> Fields<'d> {
        let bytes = document.as_bytes();
        // Skip the length prefix and the end byte of the document.
        let end = bytes.len().saturating_sub(1);
        Fields {
            rest: bytes.get(4..end).unwrap_or_default(),
        }
    }
}

impl<'d> Iterator for Fields<'d> {
    type Item = FieldBytes<'d>;

    fn next(&mut self) -> Option<FieldBytes<'d>> {
        let (kind, named) = self.rest.split_first()?;
        let end = named.iter().position(|byte| *byte == 0)?;
        let (name, value) = (named.get(..end)?, named.get(end + 1..)?);
        let (value, rest) = value.split_at_checked(value_size(*kind, value)?)?;
        self.rest = rest;
        Some(FieldBytes {
            kind: *kind,
            name,
            value,
        })
    }
}

/// Looks up a value with the `bson` crate: types without a fast path, and malformed values.
fn get_slowly<'d>(document: &'d RawDocument, key: &str) -> Option<RawBsonRef<'d>> {
    let mut elements = document.iter_elements().map_while(|element| element.ok());
    elements
        .find(|element| element.key().as_str() == key)?
        .value()
        .ok()
}

/// Returns the size of a value in bytes. `None` for unknown types and invalid lengths.
fn value_size(kind: u8, bytes: &[u8]) -> Option<usize> {
    let length = || {
        let prefix = bytes.first_chunk::<4>()?;
        usize::try_from(i32::from_le_bytes(*prefix)).ok()
    };
    match kind {
        // Undefined, null, MinKey and MaxKey.
        0x06 | 0x0A | 0xFF | 0x7F => Some(0),
        // Boolean.
        0x08 => Some(1),
        // Int32.
        0x10 => Some(4),
        // Double, date, timestamp and Int64.
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        // Object id and Decimal128.
        0x07 => Some(12),
        0x13 => Some(16),
        // String, code and symbol, then binary and DBPointer, whose values have more bytes than the
        // length prefix counts.
        0x02 | 0x0D | 0x0E => length()?.checked_add(4),
        0x05 => length()?.checked_add(5),
        0x0C => length()?.checked_add(16),
        // Document, array and code with scope: the length prefix counts itself.
        0x03 | 0x04 | 0x0F => length(),
        // Regular expression: two strings that end with a zero byte.
        0x0B => {
            let mut zeros = bytes.iter().enumerate().filter(|(_, byte)| **byte == 0);
            zeros.nth(1).map(|(at, _)| at + 1)
        }
        _ => None,
    }
}

fn decode_value(kind: u8, bytes: &[u8]) -> Option<RawBsonRef<'_>> {
    Some(match kind {
        0x01 => RawBsonRef::Double(f64::from_le_bytes(bytes.try_into().ok()?)),
        0x02 => {
            let text = bytes.get(4..bytes.len().checked_sub(1)?)?;
            RawBsonRef::String(str::from_utf8(text).ok()?)
        }
        0x03 => RawBsonRef::Document(RawDocument::from_bytes(bytes).ok()?),
        0x07 => RawBsonRef::ObjectId(ObjectId::from_bytes(bytes.try_into().ok()?)),
        0x08 => match bytes {
            [0] => RawBsonRef::Boolean(false),
            [1] => RawBsonRef::Boolean(true),
            _ => return None,
        },
        0x09 => {
            let millis = i64::from_le_bytes(bytes.try_into().ok()?);
            RawBsonRef::DateTime(DateTime::from_millis(millis))
        }
        0x0A => RawBsonRef::Null,
        0x10 => RawBsonRef::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
        0x12 => RawBsonRef::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, RawDocumentBuf, Regex, Timestamp, doc};
    use proptest::prelude::*;

    fn of_all_types() -> RawDocumentBuf {
        let regex = Regex {
            pattern: "a".try_into().unwrap(),
            options: "i".try_into().unwrap(),
        };
        let code = bson::JavaScriptCodeWithScope {
            code: "f".into(),
            scope: doc! { "x": 1 },
        };
        let document = doc! {
            "double": 1.5, "string": "text", "document": { "x": 1 }, "array": [1, "x"],
            "binary": Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2, 3] },
            "old": Binary { subtype: BinarySubtype::BinaryOld, bytes: vec![1, 2, 3] },
            "undefined": Bson::Undefined, "id": ObjectId::new(), "true": true, "false": false,
            "date": DateTime::now(), "null": Bson::Null, "regex": regex,
            "code": Bson::JavaScriptCode("f".into()), "symbol": Bson::Symbol("s".into()),
            "scope": Bson::JavaScriptCodeWithScope(code), "int32": 7,
            "timestamp": Timestamp { time: 1, increment: 2 }, "int64": 7_i64,
            "decimal": "1.5".parse::<bson::Decimal128>().unwrap(), "min": Bson::MinKey,
            "max": Bson::MaxKey, "last": 1,
        };
        RawDocumentBuf::try_from(&document).unwrap()
    }

    #[test]
    fn fields_of_all_types_are_found_and_skipped() {
        let document = of_all_types();
        for element in document.iter_elements() {
            let element = element.unwrap();
            let key = element.key().as_str();
            assert_eq!(get(&document, key), Some(element.value().unwrap()), "{key}");
        }
        assert_eq!(get(&document, "none"), None);
    }

    #[test]
    fn changed_fields_are_found() {
        let changed = |old: bson::Document, new: bson::Document| {
            let (old, new) = (
                RawDocumentBuf::try_from(&old).unwrap(),
                RawDocumentBuf::try_from(&new).unwrap(),
            );
            let names = changed_fields(&old, &new).unwrap();
            let names = names.into_iter().map(|name| str::from_utf8(name).unwrap());
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        let same = doc! { "_id": 1, "a": [1, 2], "b": { "x": 1 } };
        assert_eq!(changed(same.clone(), same.clone()), [""; 0]);
        // Equal numbers of different types are different.
        assert_eq!(
            changed(doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "a": 1_i64 }),
            ["a"]
        );
        assert_eq!(
            changed(same.clone(), doc! { "_id": 1, "a": [1], "b": { "x": 1 } }),
            ["a"]
        );
        // A new field, a removed field, and fields in another order.
        assert_eq!(changed(doc! { "_id": 1 }, doc! { "_id": 1, "c": 1 }), ["c"]);
        assert_eq!(changed(doc! { "_id": 1, "c": 1 }, doc! { "_id": 1 }), ["c"]);
        let (old, new) = (
            doc! { "_id": 1, "a": 1, "b": 2 },
            doc! { "_id": 1, "b": 2, "a": 1 },
        );
        assert_eq!(changed(old, new), ["a", "b", "b", "a"]);
        let document = of_all_types();
        let malformed = RawDocument::from_bytes(&[10, 0, 0, 0, 0x99, b'a', 0, 1, 2, 0]).unwrap();
        assert_eq!(changed_fields(&document, malformed), None);
        assert_eq!(changed_fields(malformed, malformed), None);
    }

    #[test]
    fn values_at_a_path_are_compared() {
        let is_same = |old: bson::Document, new: bson::Document, path: &str| {
            let (old, new) = (
                RawDocumentBuf::try_from(&old).unwrap(),
                RawDocumentBuf::try_from(&new).unwrap(),
            );
            is_same_at(&old, &new, path.split('.'))
        };
        let nested = |x: i32, y: i32| doc! { "a": { "x": x, "y": { "z": y } }, "b": [{ "x": x }] };
        assert!(is_same(nested(1, 1), nested(2, 1), "a.y.z"));
        assert!(is_same(nested(1, 1), nested(2, 1), "a.none.z"));
        assert!(is_same(nested(1, 1), nested(1, 2), "b.x"));
        assert!(!is_same(nested(1, 1), nested(1, 2), "a.y.z"));
        assert!(!is_same(nested(1, 1), nested(1, 2), "a.y"));
        assert!(!is_same(nested(1, 1), nested(1, 2), "a"));
        // A path through an array has several values.
        assert!(!is_same(nested(1, 1), nested(2, 1), "b.x"));
        // A new document, a removed document, and a value in place of a document.
        assert!(!is_same(doc! {}, doc! { "a": { "x": 1 } }, "a.y"));
        assert!(!is_same(doc! { "a": { "x": 1 } }, doc! {}, "a.y"));
        assert!(!is_same(doc! { "a": { "x": 1 } }, doc! { "a": 1 }, "a.y"));
    }

    proptest! {
        #[test]
        fn damaged_bytes_do_no_harm(at in 4_usize..300, byte in any::<u8>()) {
            let mut bytes = of_all_types().into_bytes();
            let last = bytes.len() - 2;
            bytes[at.min(last)] = byte;
            if let Ok(document) = RawDocument::from_bytes(&bytes) {
                for key in ["last", "scope", "array", "none"] {
                    get(document, key);
                }
            }
        }
    }
}
