//! The top-level fields of a document as bytes.
//!
//! A write edits few fields of each document. Here the other fields are neither decoded nor validated: a field is skipped by its
//! size.

use bson::{RawDocument, RawDocumentBuf};

use crate::{Error, ErrorKind, Result, error};

/// The top-level fields of a document. After malformed bytes, the iterator returns an error and ends.
pub(super) struct Fields<'d> {
    rest: &'d [u8],
}

/// A field as bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldBytes<'d> {
    pub(super) name: &'d [u8],
    /// The type, the name and the value.
    bytes: &'d [u8],
}

impl<'d> Fields<'d> {
    pub(super) fn of(document: &'d RawDocument) -> Self {
        let bytes = document.as_bytes();
        // Skip the length prefix and the end byte of the document.
        let end = bytes.len().saturating_sub(1);
        Self {
            rest: bytes.get(4..end).unwrap_or_default(),
        }
    }

    /// Returns the next field. `None` if the bytes are malformed.
    fn take(&mut self) -> Option<FieldBytes<'d>> {
        let (kind, named) = self.rest.split_first()?;
        let name_length = named.iter().position(|byte| *byte == 0)?;
        let (name, value) = (named.get(..name_length)?, named.get(name_length + 1..)?);
        let size = (name_length + 2).checked_add(value_size(*kind, value)?)?;
        let (bytes, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(FieldBytes { name, bytes })
    }
}

impl<'d> Iterator for Fields<'d> {
    type Item = Result<FieldBytes<'d>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.take().ok_or_else(|| {
            self.rest = &[];
            Error::new(ErrorKind::Decode, "a stored document has malformed BSON")
        });
        Some(field)
    }
}

/// A document under construction.
#[derive(Debug)]
pub(super) struct DocumentBytes(Vec<u8>);

impl Default for DocumentBytes {
    fn default() -> Self {
        // The length prefix is written at the end.
        Self(vec![0; 4])
    }
}

impl DocumentBytes {
    pub(super) fn push(&mut self, field: FieldBytes<'_>) {
        self.0.extend_from_slice(field.bytes);
    }

    pub(super) fn into_document(self) -> Result<RawDocumentBuf> {
        let mut bytes = self.0;
        bytes.push(0);
        // A document of 2 GiB has a wrong length here, which the next call rejects.
        let length = i32::try_from(bytes.len()).unwrap_or_default();
        if let Some(prefix) = bytes.first_chunk_mut() {
            *prefix = length.to_le_bytes();
        }
        RawDocumentBuf::from_bytes(bytes).map_err(error::from_bson)
    }
}

/// Returns the size of a value in bytes. `None` for unknown types and invalid lengths.
fn value_size(kind: u8, value: &[u8]) -> Option<usize> {
    let length = || {
        let prefix = value.first_chunk::<4>()?;
        usize::try_from(i32::from_le_bytes(*prefix)).ok()
    };
    match kind {
        // Undefined, null, minimum and maximum key.
        0x06 | 0x0A | 0x7F | 0xFF => Some(0),
        // Boolean.
        0x08 => Some(1),
        // Int32.
        0x10 => Some(4),
        // Double, date, timestamp and int64.
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        // Object id and decimal128.
        0x07 => Some(12),
        0x13 => Some(16),
        // String, code and symbol.
        0x02 | 0x0D | 0x0E => length()?.checked_add(4),
        // Binary: the length counts neither itself nor the subtype.
        0x05 => length()?.checked_add(5),
        // DBPointer: a string and an object id.
        0x0C => length()?.checked_add(16),
        // Document, array and code with scope: the length counts itself.
        0x03 | 0x04 | 0x0F => length(),
        // Regular expression: two strings that end with a zero byte.
        0x0B => {
            let zeros = value.iter().enumerate().filter(|(_, byte)| **byte == 0);
            zeros.map(|(at, _)| at + 1).nth(1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::{
        Binary, Bson, DateTime, DbPointer, Decimal128, Document, JavaScriptCodeWithScope, Regex,
        Timestamp, doc, oid::ObjectId, spec::BinarySubtype,
    };

    use super::*;
    use crate::model::stored::to_raw_document;

    /// A document with a value of each type.
    fn all_types() -> Document {
        let pointer: DbPointer = {
            let pointer =
                doc! { "$dbPointer": { "$ref": "c", "$id": ObjectId::from_bytes([1; 12]) } };
            match bson::deserialize_from_bson(Bson::Document(pointer)) {
                Ok(Bson::DbPointer(pointer)) => pointer,
                other => panic!("{other:?}"),
            }
        };
        doc! {
            "double": 1.5,
            "string": "text with ä",
            "document": { "a": 1 },
            "array": [1, "b"],
            "binary": Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2, 3] },
            "old binary": Binary { subtype: BinarySubtype::BinaryOld, bytes: vec![1, 2, 3] },
            "undefined": Bson::Undefined,
            "id": ObjectId::from_bytes([7; 12]),
            "boolean": true,
            "date": DateTime::from_millis(5),
            "null": Bson::Null,
            "regex": Regex { pattern: "a+".try_into().unwrap(), options: "i".try_into().unwrap() },
            "pointer": pointer,
            "code": Bson::JavaScriptCode("f()".into()),
            "symbol": Bson::Symbol("s".into()),
            "scoped code": JavaScriptCodeWithScope { code: "f()".into(), scope: doc! { "x": 1 } },
            "int32": 3,
            "timestamp": Timestamp { time: 1, increment: 2 },
            "int64": 4_i64,
            "decimal": "1.50".parse::<Decimal128>().unwrap(),
            "min": Bson::MinKey,
            "max": Bson::MaxKey,
        }
    }

    #[test]
    fn fields_of_every_type_are_found() {
        let document = all_types();
        let raw = to_raw_document(&document).unwrap();
        let fields: Vec<_> = Fields::of(&raw).collect::<Result<_>>().unwrap();
        let names: Vec<_> = fields.iter().map(|field| field.name).collect();
        let expected: Vec<_> = document.keys().map(|name| name.as_bytes()).collect();
        assert_eq!(names, expected);
        let mut copy = DocumentBytes::default();
        for field in fields {
            copy.push(field);
        }
        assert_eq!(copy.into_document().unwrap(), raw);
    }

    #[test]
    fn every_cut_of_the_bytes_is_an_error_or_fewer_fields() {
        let raw = to_raw_document(&all_types()).unwrap();
        let expected = Fields::of(&raw).count();
        let body = &raw.as_bytes()[4..raw.as_bytes().len() - 1];
        for end in 0..body.len() {
            let fields: Vec<_> = Fields { rest: &body[..end] }.collect();
            let errors = fields.iter().filter(|field| field.is_err()).count();
            assert!(errors <= 1 && fields.len() <= expected, "{end}");
        }
    }
}
