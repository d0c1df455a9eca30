//! Ids in batches, each of which one query can ask for.

use bson::{Bson, RawBson, RawBsonRef, RawDocumentBuf};

/// How many bytes of ids a batch has at most. A command of MongoDB holds 16 MiB: the batch with other conditions, and sometimes
/// with a second list of ids.
pub(crate) const MAX_BATCH_BYTES: usize = 6 * 1024 * 1024;

/// The bytes that a command adds to each id: its position, and the field names of an id that is a document.
const BYTES_BESIDE: usize = 64;

/// The ids in batches of at most `most` ids and [`MAX_BATCH_BYTES`], in their order. An id that is larger than that is a batch.
pub(crate) fn id_batches<T: HasId>(ids: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let mut rest = ids;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let some = rest.iter().take(most).take_while(|id| {
            bytes += id.id_bytes() + BYTES_BESIDE;
            bytes <= MAX_BATCH_BYTES
        });
        let (batch, others) = rest.split_at_checked(some.count().max(1))?;
        rest = others;
        Some(batch)
    })
}

/// An id, or a value with an id.
pub(crate) trait HasId {
    /// How many bytes the id has in a document, about.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_in_number_and_in_bytes() {
        let lens = |ids: &[Bson], most| id_batches(ids, most).map(<[_]>::len).collect::<Vec<_>>();
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
