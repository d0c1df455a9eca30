//! Ids of documents: map keys, lists in conditions, and batches that fit into one query each.

use bson::{Bson, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::{
    Error, ErrorKind, Result, error,
    model::{decode, stored::to_raw_value},
};

/// The maximum size in bytes of the ids in a batch. A MongoDB command has a limit of 16 MiB, for the batch, the rest of the
/// filter, and sometimes a second list of ids.
pub(crate) const MAX_BATCH_BYTES: usize = 6 * 1024 * 1024;

/// The bytes that a command adds to each id: the array position, and the field names of a document id.
const ID_OVERHEAD_BYTES: usize = 64;

/// Splits the ids into batches of at most `max_len` ids and [`MAX_BATCH_BYTES`], in order. A larger id is a batch of its own.
pub(crate) fn id_batches<T: HasId>(ids: &[T], max_len: usize) -> impl Iterator<Item = &[T]> {
    let mut remaining = ids;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let selected = remaining.iter().take(max_len).take_while(|id| {
            bytes += id.id_bytes() + ID_OVERHEAD_BYTES;
            bytes <= MAX_BATCH_BYTES
        });
        let (batch, tail) = remaining.split_at_checked(selected.count().max(1))?;
        remaining = tail;
        Some(batch)
    })
}

/// An id, or a value with an id.
pub(crate) trait HasId {
    /// Returns the approximate size of the id in a document, in bytes.
    fn id_bytes(&self) -> usize;
}

impl HasId for RawBsonRef<'_> {
    fn id_bytes(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Document(document) => document.as_bytes().len(),
            Self::Array(array) => array.as_bytes().len(),
            Self::Binary(binary) => binary.bytes.len(),
            _ => size_of::<i128>(),
        }
    }
}

impl HasId for RawBson {
    fn id_bytes(&self) -> usize {
        self.as_raw_bson_ref().id_bytes()
    }
}

impl HasId for Bson {
    fn id_bytes(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Document(document) => {
                let raw = RawDocumentBuf::try_from(document);
                raw.map_or(MAX_BATCH_BYTES, |raw| raw.as_bytes().len())
            }
            Self::Binary(binary) => binary.bytes.len(),
            _ => size_of::<i128>(),
        }
    }
}

impl<T: HasId + ?Sized> HasId for &T {
    fn id_bytes(&self) -> usize {
        (**self).id_bytes()
    }
}

/// An id as a map key, with an order. The order makes concurrent transactions write to documents in the same order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderedId(Vec<u8>);

impl OrderedId {
    /// Converts an id. Equal integers of different BSON types become equal keys, as the database compares ids. Decimals keep
    /// their type.
    pub(crate) fn from_id(id: &RawBson) -> Self {
        let id = match id.as_raw_bson_ref() {
            RawBsonRef::Int32(number) => RawBsonRef::Int64(number.into()),
            RawBsonRef::Double(number) => match exact_integer(number) {
                Some(number) => RawBsonRef::Int64(number),
                None => RawBsonRef::Double(number),
            },
            id => id,
        };
        let mut document = RawDocumentBuf::new();
        document.append(bson::raw::cstr!("_id"), id);
        Self(document.into_bytes())
    }

    /// Converts a parsed id.
    pub(crate) fn from_bson(id: &Bson) -> Result<Self> {
        Ok(Self::from_id(&to_raw_value(id)?))
    }

    pub(crate) fn to_value(&self) -> Result<RawBson> {
        let document = RawDocument::from_bytes(&self.0).map_err(error::from_bson)?;
        let id = decode::stored_id(document).map(RawBson::from);
        id.ok_or_else(|| {
            let message = "the id has no value: report this error as a bug of odm";
            Error::new(ErrorKind::Encode, message)
        })
    }
}

/// Returns the values of ids.
pub(crate) fn id_values<'i>(ids: impl IntoIterator<Item = &'i OrderedId>) -> Result<Vec<RawBson>> {
    ids.into_iter().map(OrderedId::to_value).collect()
}

impl HasId for OrderedId {
    fn id_bytes(&self) -> usize {
        self.0.len()
    }
}

/// Returns a floating-point number as an integer, if the number is integral.
fn exact_integer(number: f64) -> Option<i64> {
    // 2⁶³. An integral number below this limit fits into an `i64`.
    const I64_UPPER_BOUND: f64 = 9_223_372_036_854_775_808.0;
    let is_whole = number.fract() == 0.0 && (-I64_UPPER_BOUND..I64_UPPER_BOUND).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is integral and in range"
    )]
    is_whole.then_some(number as i64)
}

/// Whether a list contains an id.
pub(crate) fn contains_id(ids: &[RawBson], id: &RawBson) -> bool {
    let id = OrderedId::from_id(id);
    ids.iter().any(|other| OrderedId::from_id(other) == id)
}

/// Returns the condition that a document has one of the given ids.
pub(crate) fn ids_filter<'i>(ids: impl IntoIterator<Item = &'i RawBson>) -> RawDocumentBuf {
    rawdoc! { "_id": one_of(ids) }
}

/// Returns the condition that a value is one of the given ids.
pub(crate) fn one_of<'i>(ids: impl IntoIterator<Item = &'i RawBson>) -> RawDocumentBuf {
    rawdoc! { "$in": id_array(ids) }
}

/// Returns the condition that a value is none of the given ids.
pub(crate) fn none_of<'i>(ids: impl IntoIterator<Item = &'i RawBson>) -> RawDocumentBuf {
    rawdoc! { "$nin": id_array(ids) }
}

pub(crate) fn id_array<'i>(ids: impl IntoIterator<Item = &'i RawBson>) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    for id in ids {
        array.push(id.as_raw_bson_ref());
    }
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_in_number_and_in_bytes() {
        let lens =
            |ids: &[Bson], max_ids| id_batches(ids, max_ids).map(<[_]>::len).collect::<Vec<_>>();
        let short: Vec<_> = (0..25).map(Bson::Int32).collect();
        assert_eq!(lens(&short, 10), [10, 10, 5]);
        assert_eq!(lens(&short[..10], 10), [10]);
        assert_eq!(lens(&[], 10), [0; 0]);
        let long = vec![Bson::String("x".repeat(MAX_BATCH_BYTES / 3)); 5];
        assert_eq!(lens(&long, 10), [2, 2, 1]);
        let huge = vec![Bson::String("x".repeat(2 * MAX_BATCH_BYTES)); 2];
        assert_eq!(lens(&huge, 10), [1, 1]);
    }
}
