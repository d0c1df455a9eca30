use std::collections::HashSet;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use super::access::KeyAccess;
use super::merged::MergedRanges;
use super::{AccessPath, IndexAccess, IndexWalk};
use crate::catalog::Collection;
use crate::error::{Error, Result};
use crate::index::{ID_INDEX, IndexState};
use crate::interrupt;
use crate::key::{self, RecordId};
use crate::store::{Entries, KeyRange, Snapshot, StoreView, StoredBytes};

/// An iterator over the candidates of an [`AccessPath`], without duplicates.
pub(crate) struct CandidateRecords {
    view: StoreView,
    collection: u32,
    /// The remaining sources of the access, in reverse order.
    sources: Vec<RecordSource>,
    /// The records seen so far, if a record can repeat.
    seen: Option<HashSet<RecordId>>,
    pub(crate) examined: ExaminedCounts,
}

/// The numbers of index keys and documents that a search for candidates has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExaminedCounts {
    pub(crate) keys: u64,
    pub(crate) documents: u64,
}

/// The available content of a candidate.
pub(crate) enum RecordContent {
    /// The whole document.
    Document(StoredBytes),
    /// The fields of an index that covers the query.
    Part(RawDocumentBuf),
}

enum RecordSource {
    Collection(Entries),
    Keys(KeyAccess),
    Index(IndexSource),
}

struct IndexSource {
    state: Arc<IndexState>,
    walk: Box<dyn Iterator<Item = Result<(StoredBytes, StoredBytes)>> + Send>,
    is_covered: bool,
}

/// The next item of a source.
enum SourceItem {
    Found(RecordId, RecordContent),
    Record(RecordId),
}

impl CandidateRecords {
    pub(crate) fn new(
        view: StoreView,
        collection: &Collection,
        access: AccessPath,
    ) -> CandidateRecords {
        let repeats = match &access {
            AccessPath::Collection(_) | AccessPath::Keys(_) => false,
            AccessPath::Index(index) => index.multikey,
            AccessPath::Union(_) => true,
        };
        let mut sources = Vec::new();
        add_sources(&view, collection, access, &mut sources);
        sources.reverse();
        CandidateRecords {
            view,
            collection: collection.id,
            sources,
            seen: repeats.then(HashSet::new),
            examined: ExaminedCounts::default(),
        }
    }

    fn next_candidate(&mut self) -> Result<Option<(RecordId, RecordContent)>> {
        while let Some(source) = self.sources.last_mut() {
            let Some(next) = source.next_item(&self.view, &mut self.examined)? else {
                self.sources.pop();
                continue;
            };
            let record = match next {
                SourceItem::Found(record, content) => {
                    let is_read = matches!(content, RecordContent::Document(_));
                    self.examined.documents += u64::from(is_read);
                    return Ok(Some((record, content)));
                }
                SourceItem::Record(record) => record,
            };
            if self.seen.as_mut().is_none_or(|seen| seen.insert(record)) {
                self.examined.documents += 1;
                let document = self.view.get(&key::for_record(self.collection, record))?;
                let document = document.ok_or_else(missing_document_error)?;
                let document = RecordContent::Document(document);
                return Ok(Some((record, document)));
            }
        }
        Ok(None)
    }
}

impl Iterator for CandidateRecords {
    type Item = Result<(RecordId, RecordContent)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_candidate().transpose()
    }
}

impl RecordContent {
    pub(crate) fn as_document(&self) -> Result<&RawDocument> {
        match self {
            RecordContent::Document(bytes) => read_document(bytes),
            RecordContent::Part(part) => Ok(part),
        }
    }
}

/// Returns the document in stored bytes.
///
/// # Errors
/// Damaged.
pub(crate) fn read_document(bytes: &[u8]) -> Result<&RawDocument> {
    RawDocument::from_bytes(bytes)
        .map_err(|error| Error::damaged(format!("a document cannot be read: {error}")))
}

/// Returns the error for an index entry without its document.
pub(crate) fn missing_document_error() -> Error {
    Error::damaged("an index entry refers to a missing document")
}

fn add_sources(
    view: &StoreView,
    collection: &Collection,
    access: AccessPath,
    sources: &mut Vec<RecordSource>,
) {
    match access {
        AccessPath::Collection(direction) => {
            let range = KeyRange::with_prefix(&key::record_prefix(collection.id));
            sources.push(RecordSource::Collection(view.range(range, direction)));
        }
        AccessPath::Keys(keys) => sources.push(RecordSource::Keys(keys)),
        AccessPath::Index(index) => {
            sources.push(RecordSource::Index(IndexSource::new(view, index)))
        }
        AccessPath::Union(branches) => {
            for branch in branches {
                add_sources(view, collection, branch, sources);
            }
        }
    }
}

impl RecordSource {
    fn next_item(
        &mut self,
        view: &StoreView,
        examined: &mut ExaminedCounts,
    ) -> Result<Option<SourceItem>> {
        match self {
            RecordSource::Collection(entries) => {
                let Some(entry) = entries.next() else {
                    return Ok(None);
                };
                let (key, value) = entry?;
                let record = key::trailing_record(&key)?;
                Ok(Some(SourceItem::Found(
                    record,
                    RecordContent::Document(value),
                )))
            }
            RecordSource::Keys(access) => {
                // As on MongoDB, a look-up by `_id` counts even if there is no entry.
                let counts_missing = access.state.id == ID_INDEX;
                loop {
                    interrupt::check()?;
                    let Some(key) = access.keys.next() else {
                        return Ok(None);
                    };
                    let value = view.get(&key)?;
                    examined.keys += u64::from(counts_missing || value.is_some());
                    if let Some(value) = value {
                        return decode_entry(&access.state, &key, &value, access.is_covered)
                            .map(Some);
                    }
                }
            }
            RecordSource::Index(index) => {
                let Some(entry) = index.walk.next() else {
                    return Ok(None);
                };
                examined.keys += 1;
                let (key, value) = entry?;
                decode_entry(&index.state, &key, &value, index.is_covered).map(Some)
            }
        }
    }
}

/// Decodes an entry of an index.
fn decode_entry(
    state: &IndexState,
    key: &[u8],
    value: &[u8],
    is_covered: bool,
) -> Result<SourceItem> {
    let entry = state.split_entry(key, value)?;
    if !is_covered {
        return Ok(SourceItem::Record(entry.record));
    }
    let part = state.read_part(entry.key, entry.stored_part)?;
    Ok(SourceItem::Found(entry.record, RecordContent::Part(part)))
}

impl IndexSource {
    fn new(view: &StoreView, index: IndexAccess) -> IndexSource {
        let (view, direction) = (view.clone(), index.direction);
        let entries: Box<dyn Iterator<Item = Result<(StoredBytes, StoredBytes)>> + Send> =
            match index.walk {
                IndexWalk::Sequential(ranges) => {
                    Box::new(ranges.flat_map(move |range| match interrupt::check() {
                        Ok(()) => view.range(range, direction),
                        Err(interrupted) => Box::new(std::iter::once(Err(interrupted))),
                    }))
                }
                IndexWalk::Merged(ranges) => Box::new(MergedRanges::new(&view, ranges, direction)),
            };
        IndexSource {
            state: index.state,
            walk: entries,
            is_covered: index.is_covered,
        }
    }
}
