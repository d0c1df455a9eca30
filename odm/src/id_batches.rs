//! Ids in batches that fit into one query each.

use bson::{Bson, RawBson, RawBsonRef, RawDocumentBuf};

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
