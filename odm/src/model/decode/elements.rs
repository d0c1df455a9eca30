//! The elements of a stored document or array.
//!
//! Common types are read from the bytes at once, several times as fast as by `bson`. At the first element of another type, or with
//! malformed bytes, `bson` reads the remaining elements.

use bson::{
    DateTime, Decimal128, RawBinaryRef, RawBsonRef, RawDocument,
    oid::ObjectId,
    raw::{RawElement, RawIter},
    spec::{BinarySubtype, ElementType},
};

use super::deserializer::{DecodeError, StoredValue};

type Result<T> = std::result::Result<T, DecodeError>;

/// The largest estimate of the number of elements. Elements of another type can follow, so an array may have far fewer elements.
const MAX_ESTIMATED_ELEMENTS: usize = 4_096;

/// The remaining elements of a document or an array.
pub(super) struct Elements<'de> {
    document: &'de RawDocument,
    /// The bytes from the next element on.
    rest: &'de [u8],
    /// The number of elements before `rest`.
    position: usize,
    /// The iterator of `bson`, which has taken over.
    by_bson: Option<RawIter<'de>>,
}

/// An element of a document or an array.
pub(super) enum Element<'de> {
    Read {
        name: &'de str,
        value: StoredValue<'de>,
    },
    /// An element that `bson` reads.
    Unread(RawElement<'de>),
}

impl<'de> Elements<'de> {
    /// Returns the elements of a document. The elements of an array have the form of a document.
    #[inline]
    pub(super) fn new(document: &'de RawDocument) -> Self {
        Self {
            document,
            rest: document
                .as_bytes()
                .get(size_of::<i32>()..)
                .unwrap_or_default(),
            position: 0,
            by_bson: None,
        }
    }

    /// Returns the next element.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Element<'de>>> {
        if self.by_bson.is_none() {
            if self.rest == [0] {
                return Ok(None);
            }
            if let Some((name, value, size)) = read_element(self.rest) {
                self.rest = self.rest.get(size..).unwrap_or_default();
                self.position += 1;
                return Ok(Some(Element::Read { name, value }));
            }
        }
        self.next_by_bson()
    }

    #[cold]
    fn next_by_bson(&mut self) -> Result<Option<Element<'de>>> {
        let (document, position) = (self.document, self.position);
        let remaining = match &mut self.by_bson {
            Some(remaining) => remaining,
            None => {
                let mut elements = document.iter_elements();
                // These elements have been read already.
                let mut skipped = elements.by_ref().take(position);
                skipped.try_for_each(|element| element.map(drop))?;
                self.by_bson.insert(elements)
            }
        };
        Ok(remaining.next().transpose()?.map(Element::Unread))
    }

    /// Estimates the number of elements from the size of the next element. Returns `None` if the elements may have different sizes.
    pub(super) fn estimate_count(&self) -> Option<usize> {
        let (_, value, size) = read_element(self.rest)?;
        let is_fixed = value.has_fixed_size();
        is_fixed.then(|| (self.rest.len() / size.max(1)).min(MAX_ESTIMATED_ELEMENTS))
    }
}

impl<'de> Element<'de> {
    /// Returns the name.
    #[inline]
    pub(super) fn name(&self) -> &'de str {
        match self {
            Element::Read { name, .. } => name,
            Element::Unread(element) => element.key().as_str(),
        }
    }

    /// Returns the value.
    #[inline]
    pub(super) fn into_value(self) -> Result<StoredValue<'de>> {
        match self {
            Element::Read { value, .. } => Ok(value),
            Element::Unread(element) => Ok(element.value()?.into()),
        }
    }
}

/// Reads the name and the value of the first element, and returns the number of bytes of the element. Returns `None` for a type that
/// `bson` reads, and for malformed bytes.
#[inline]
fn read_element(bytes: &[u8]) -> Option<(&str, StoredValue<'_>, usize)> {
    let (kind, after_kind) = bytes.split_first()?;
    let name_size = after_kind.iter().position(|byte| *byte == 0)?;
    let (name, after_name) = after_kind.split_at_checked(name_size)?;
    let (value, size) = read_value(ElementType::from(*kind)?, after_name.get(1..)?)?;
    Some((str::from_utf8(name).ok()?, value, name_size + 2 + size))
}

/// Reads the first value, and returns the number of its bytes.
#[inline]
fn read_value(kind: ElementType, bytes: &[u8]) -> Option<(StoredValue<'_>, usize)> {
    let (value, size) = match kind {
        ElementType::Double => (
            RawBsonRef::Double(f64::from_le_bytes(*bytes.first_chunk()?)),
            8,
        ),
        ElementType::Int32 => (
            RawBsonRef::Int32(i32::from_le_bytes(*bytes.first_chunk()?)),
            4,
        ),
        ElementType::Int64 => (
            RawBsonRef::Int64(i64::from_le_bytes(*bytes.first_chunk()?)),
            8,
        ),
        ElementType::DateTime => {
            let millis = i64::from_le_bytes(*bytes.first_chunk()?);
            (RawBsonRef::DateTime(DateTime::from_millis(millis)), 8)
        }
        ElementType::ObjectId => {
            let id = ObjectId::from_bytes(*bytes.first_chunk()?);
            (RawBsonRef::ObjectId(id), 12)
        }
        ElementType::Decimal128 => {
            let decimal = Decimal128::from_bytes(*bytes.first_chunk()?);
            (RawBsonRef::Decimal128(decimal), 16)
        }
        ElementType::Boolean => match bytes.first()? {
            0 => (RawBsonRef::Boolean(false), 1),
            1 => (RawBsonRef::Boolean(true), 1),
            _ => return None,
        },
        ElementType::Null => (RawBsonRef::Null, 0),
        ElementType::String => {
            // The length counts the zero byte at the end.
            let (text, zero) = bytes
                .get(4..)?
                .split_at_checked(length(bytes)?.checked_sub(1)?)?;
            zero.first().filter(|zero| **zero == 0)?;
            let text = str::from_utf8(text).ok()?;
            (RawBsonRef::String(text), 4 + text.len() + 1)
        }
        ElementType::EmbeddedDocument => {
            let document = RawDocument::from_bytes(bytes.get(..length(bytes)?)?).ok()?;
            (RawBsonRef::Document(document), document.as_bytes().len())
        }
        ElementType::Array => {
            let elements = RawDocument::from_bytes(bytes.get(..length(bytes)?)?).ok()?;
            return Some((StoredValue::Array(elements), elements.as_bytes().len()));
        }
        ElementType::Binary => {
            let (subtype, after_subtype) = bytes.get(4..)?.split_first()?;
            let subtype = BinarySubtype::from(*subtype);
            // This subtype has a second length.
            if subtype == BinarySubtype::BinaryOld {
                return None;
            }
            let bytes = after_subtype.get(..length(bytes)?)?;
            (
                RawBsonRef::Binary(RawBinaryRef { subtype, bytes }),
                5 + bytes.len(),
            )
        }
        _ => return None,
    };
    Some((StoredValue::Other(value), size))
}

/// Reads the length at the beginning of a value.
#[inline]
fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.first_chunk()?)).ok()
}
