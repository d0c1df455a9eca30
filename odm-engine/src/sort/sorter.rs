mod heap;

use std::cmp::Ordering;

use bson::{RawDocument, RawDocumentBuf};

use super::{Sort, SortKey};
use crate::error::{Error, Result, code};

/// How many bytes a sort may hold in memory, as on MongoDB.
const MEMORY_LIMIT: usize = 100 << 20;

/// Documents on their way into an order.
///
/// Without a limit, and with a limit of 1, the first of equal documents comes first. With another
/// limit, which of them come and in which order is as MongoDB's [`heap`] leaves them.
pub(crate) struct Sorter<'s> {
    sort: &'s Sort,
    /// How many documents are wanted.
    limit: usize,
    /// A heap as soon as there are as many as are wanted.
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
        if self.limit == 0 {
            return Ok(());
        }
        let is_full = self.held.len() == self.limit;
        let greatest = self.held.first().filter(|_| is_full);
        if greatest.is_some_and(|greatest| self.sort.compare(&key, &greatest.key).is_ge()) {
            return Ok(());
        }
        let bytes = document.as_bytes().len() + key.size();
        let added = Held {
            key,
            document: document.to_owned(),
            bytes,
        };
        self.bytes += bytes;
        let compare = by(self.sort);
        if is_full {
            self.bytes -= self.held.first().map_or(0, |greatest| greatest.bytes);
            heap::replace_greatest(&mut self.held, added, &compare);
        } else {
            self.held.push(added);
            if self.held.len() == self.limit {
                heap::make(&mut self.held, &compare);
            }
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
        let compare = by(self.sort);
        if self.held.len() == self.limit {
            heap::sort(&mut self.held, &compare);
        } else {
            self.held.sort_by(compare);
        }
        self.held.into_iter().map(|held| held.document)
    }
}

fn by(sort: &Sort) -> impl Fn(&Held, &Held) -> Ordering {
    |a, b| sort.compare(&a.key, &b.key)
}
