mod heap;

use std::cmp::Ordering;

use bson::{RawDocument, RawDocumentBuf};

use super::{Sort, SortKey};
use crate::error::{Error, Result, code};

/// The memory limit of a sort in bytes, as on MongoDB.
const MAX_SORT_BYTES: usize = 100 << 20;

/// Collects documents and returns the sorted result.
///
/// Without a limit and with a limit of 1, equal documents keep their order. With another limit, the
/// choice and the order of equal documents follow MongoDB's [`heap`].
pub(crate) struct Sorter<'s> {
    sort: &'s Sort,
    /// The maximum number of documents in the result.
    limit: usize,
    /// The collected documents. A heap as soon as `limit` documents are collected.
    documents: Vec<HeldDocument>,
    bytes: usize,
}

struct HeldDocument {
    key: SortKey,
    document: RawDocumentBuf,
    bytes: usize,
}

impl<'s> Sorter<'s> {
    pub(crate) fn new(sort: &'s Sort, limit: Option<u64>) -> Sorter<'s> {
        Sorter {
            sort,
            limit: limit.map_or(usize::MAX, |limit| {
                usize::try_from(limit).unwrap_or(usize::MAX)
            }),
            documents: Vec::new(),
            bytes: 0,
        }
    }

    /// # Errors
    /// A document has no sort key, or the documents exceed the memory limit.
    pub(crate) fn add_document(&mut self, document: &RawDocument) -> Result<()> {
        let key = self.sort.extract_key(document)?;
        if self.limit == 0 {
            return Ok(());
        }
        let is_full = self.documents.len() == self.limit;
        let greatest = self.documents.first().filter(|_| is_full);
        if greatest.is_some_and(|greatest| self.sort.compare(&key, &greatest.key).is_ge()) {
            return Ok(());
        }
        let bytes = document.as_bytes().len() + key.byte_size();
        let added = HeldDocument {
            key,
            document: document.to_owned(),
            bytes,
        };
        self.bytes += bytes;
        let compare = key_order(self.sort);
        if is_full {
            self.bytes -= self.documents.first().map_or(0, |greatest| greatest.bytes);
            heap::replace_greatest(&mut self.documents, added, &compare);
        } else {
            self.documents.push(added);
            if self.documents.len() == self.limit {
                heap::make_heap(&mut self.documents, &compare);
            }
        }
        if self.bytes > MAX_SORT_BYTES {
            let message = format!(
                "the sort needs more than {MAX_SORT_BYTES} bytes of memory; create an index that \
                 gives this order, or limit the result"
            );
            return Err(Error::with_server_code(code::SORT_MEMORY_LIMIT, message));
        }
        Ok(())
    }

    pub(crate) fn into_sorted(mut self) -> impl Iterator<Item = RawDocumentBuf> + use<> {
        let compare = key_order(self.sort);
        if self.documents.len() == self.limit {
            heap::sort_heap(&mut self.documents, &compare);
        } else {
            self.documents.sort_by(compare);
        }
        self.documents.into_iter().map(|entry| entry.document)
    }
}

fn key_order(sort: &Sort) -> impl Fn(&HeldDocument, &HeldDocument) -> Ordering {
    |a, b| sort.compare(&a.key, &b.key)
}
