use bson::{RawDocument, RawDocumentBuf};

use super::{Sort, SortKey};
use crate::error::{Error, Result, code};

/// How many bytes a sort may hold in memory, as on MongoDB.
const MEMORY_LIMIT: usize = 100 << 20;

/// Documents on their way into an order; of equal ones, the first to come stays first.
pub(crate) struct Sorter<'s> {
    sort: &'s Sort,
    /// How many documents are wanted.
    limit: usize,
    held: Vec<Held>,
    bytes: usize,
}

struct Held {
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
            held: Vec::new(),
            bytes: 0,
        }
    }

    /// # Errors
    /// A document that cannot be sorted, and more documents than fit into memory.
    pub(crate) fn add(&mut self, document: &RawDocument) -> Result<()> {
        let key = self.sort.key(document)?;
        let bytes = document.as_bytes().len() + key.size();
        self.held.push(Held {
            key,
            document: document.to_owned(),
            bytes,
        });
        self.bytes += bytes;
        // Cutting back only when there is twice too much keeps the cost per document low.
        if self.held.len() / 2 > self.limit || self.bytes > MEMORY_LIMIT {
            self.cut();
        }
        if self.bytes > MEMORY_LIMIT {
            let message = format!(
                "the sort needs more than {MEMORY_LIMIT} bytes of memory; create an index that \
                 gives this order, or limit the result"
            );
            return Err(Error::server(code::SORT_MEMORY_LIMIT, message));
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> impl Iterator<Item = RawDocumentBuf> + use<> {
        self.cut();
        self.held.into_iter().map(|held| held.document)
    }

    fn cut(&mut self) {
        self.held.sort_by(|a, b| self.sort.compare(&a.key, &b.key));
        self.held.truncate(self.limit);
        self.bytes = self.held.iter().map(|held| held.bytes).sum();
    }
}
