//! Lookup of a field by name, the most frequent operation of matching.
//!
//! The scan skips values by their size without decoding them, several times as fast as an iteration
//! over decoded elements.

use bson::oid::ObjectId;
use bson::{DateTime, RawBsonRef, RawDocument};

/// Returns the value of a field. Fields after malformed bytes are not found.
pub(crate) fn get<'d>(document: &'d RawDocument, key: &str) -> Option<RawBsonRef<'d>> {
    let bytes = document.as_bytes();
    // Skip the length prefix and the end byte of the document.
    let mut rest = bytes.get(4..bytes.len().checked_sub(1)?)?;
    loop {
        let (kind, named) = rest.split_first()?;
        let end = named.iter().position(|byte| *byte == 0)?;
        let (name, value) = (named.get(..end)?, named.get(end + 1..)?);
        let size = value_size(*kind, value)?;
        let (value, after) = value.split_at_checked(size)?;
        if name == key.as_bytes() {
            return decode_value(*kind, value).or_else(|| get_slowly(document, key));
        }
        rest = after;
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
