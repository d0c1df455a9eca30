//! The encoding of values into bytes that sort as the values do.
//!
//! For any two values, comparing their encodings byte by byte gives [`crate::value::compare`], and
//! equal values (`1`, `1.0`, `Decimal128("1.00")`) have one encoding. No encoding is a prefix of
//! another one, so that those of several fields can be joined, and complementing the bytes of one
//! reverses its order: that is a descending field.
//!
//! | type | after the tag |
//! |---|---|
//! | number | see [`number`] |
//! | string, symbol, code | bytes, `00` written as `00 FF`; then `00 01` |
//! | document | per field: rank, name like a string, value; then `00` |
//! | array | per element: value; then `00` |
//! | binary | length 4, subtype 1, bytes |
//! | ObjectId | its 12 bytes |
//! | bool | `00` or `01` |
//! | date | milliseconds, 8 bytes with the sign bit flipped |
//! | timestamp | time 4, increment 4 |
//! | regex | pattern and options like strings |
//! | dbPointer | length 4, the value's bytes in BSON |
//! | code with scope | code like a string, scope like a document |

mod number;

use bson::raw::{RawBinaryRef, cstr};
use bson::spec::BinarySubtype;
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::{Error, Result, code};
use crate::index::Direction;
use crate::value;

/// Ends documents and arrays; smaller than every tag.
const END: u8 = 0x00;

/// The first tag. Tags are this plus eight times the rank of the type, which leaves room within a
/// type (numbers use it for their sign) and keeps `00` and `FF` free.
const FIRST_TAG: u8 = 0x08;

/// Appends the encoding of `value`, so that it sorts in `direction`.
///
/// # Errors
/// Bytes that are not BSON, and values that nest too deeply.
pub(crate) fn encode(value: RawBsonRef<'_>, direction: Direction, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    encode_ascending(value, 0, out)?;
    if direction == Direction::Descending {
        for byte in out.iter_mut().skip(start) {
            *byte = !*byte;
        }
    }
    Ok(())
}

/// The tags that values of this value's type begin with, as a half-open interval.
pub(crate) fn type_bracket(value: RawBsonRef<'_>) -> (u8, u8) {
    let tag = tag(value);
    (tag, tag.saturating_add(8))
}

fn tag(value: RawBsonRef<'_>) -> u8 {
    FIRST_TAG.saturating_add(value::rank(value).saturating_mul(8))
}

fn encode_ascending(value: RawBsonRef<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if depth > value::MAX_DEPTH {
        return Err(Error::server(code::OVERFLOW, "the value nests too deeply"));
    }
    if let Some(number) = value::Number::from_bson(value) {
        number::encode(number, tag(value), out);
        return Ok(());
    }
    out.push(tag(value));
    match value {
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            encode_text(text, out);
        }
        RawBsonRef::Document(document) => encode_document(document, depth, out)?,
        RawBsonRef::Array(array) => encode_array(array, depth, out)?,
        RawBsonRef::Binary(binary) => encode_binary(binary, out),
        RawBsonRef::ObjectId(id) => out.extend_from_slice(&id.bytes()),
        RawBsonRef::Boolean(value) => out.push(u8::from(value)),
        RawBsonRef::DateTime(date) => {
            let ordered = date.timestamp_millis().cast_unsigned() ^ (1 << 63);
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        RawBsonRef::Timestamp(timestamp) => {
            out.extend_from_slice(&timestamp.time.to_be_bytes());
            out.extend_from_slice(&timestamp.increment.to_be_bytes());
        }
        RawBsonRef::RegularExpression(regex) => {
            encode_text(regex.pattern.as_str(), out);
            encode_text(regex.options.as_str(), out);
        }
        RawBsonRef::DbPointer(_) => encode_pointer(value, out),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            encode_text(code.code, out);
            encode_document(code.scope, depth, out)?;
        }
        RawBsonRef::Double(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Null
        | RawBsonRef::Undefined
        | RawBsonRef::MinKey
        | RawBsonRef::MaxKey => {}
    }
    Ok(())
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        out.push(byte);
        if byte == 0x00 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0x00, 0x01]);
}

/// Appends the beginning that the encodings of all strings with this beginning share.
pub(crate) fn encode_text_prefix(prefix: &str, out: &mut Vec<u8>) {
    out.push(tag(RawBsonRef::String(prefix)));
    encode_text(prefix, out);
    // Without the terminator.
    out.truncate(out.len().saturating_sub(2));
}

fn encode_document(document: &RawDocument, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    for element in document.iter_elements() {
        let element = element?;
        let value = element.value()?;
        out.push(tag(value));
        encode_text(element.key().as_str(), out);
        encode_ascending(value, depth + 1, out)?;
    }
    out.push(END);
    Ok(())
}

fn encode_array(array: &RawArray, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    for item in array {
        encode_ascending(item?, depth + 1, out)?;
    }
    out.push(END);
    Ok(())
}

fn encode_binary(binary: RawBinaryRef<'_>, out: &mut Vec<u8>) {
    let length = match binary.subtype {
        // The old generic subtype stores its length twice, and MongoDB's order counts that.
        BinarySubtype::BinaryOld => binary.bytes.len() + 4,
        _ => binary.bytes.len(),
    };
    encode_length(length, out);
    out.push(binary.subtype.into());
    out.extend_from_slice(binary.bytes);
}

/// The parts of a pointer can only be read from the bytes of a document around it.
fn encode_pointer(pointer: RawBsonRef<'_>, out: &mut Vec<u8>) {
    let mut document = RawDocumentBuf::new();
    document.append(cstr!(""), pointer);
    // Before it: the document's length, the type and the empty name; after it: the end.
    let bytes = document.as_bytes();
    let pointer = bytes
        .get(6..bytes.len().saturating_sub(1))
        .unwrap_or_default();
    encode_length(pointer.len(), out);
    out.extend_from_slice(pointer);
}

/// BSON's own lengths have 4 bytes, so that none is cut here.
fn encode_length(length: usize, out: &mut Vec<u8>) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
}
