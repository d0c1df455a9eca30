use std::collections::HashSet;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use super::merged::Merged;
use super::{Access, IndexAccess, Walk};
use crate::catalog::Collection;
use crate::error::{Error, Result};
use crate::index::IndexState;
use crate::interrupt;
use crate::key::{self, RecordId};
use crate::store::{Bytes, Entries, KeyRange, Snapshot, View};

/// The candidates that an [`Access`] leads to, each of them once.
pub(crate) struct Records {
    view: View,
    collection: u32,
    /// What remains of the access, the next source last.
    sources: Vec<Source>,
    /// The records seen so far, where one can come again.
    seen: Option<HashSet<RecordId>>,
    pub(crate) examined: Examined,
}

/// What it took to find candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examined {
    pub(crate) keys: u64,
    pub(crate) documents: u64,
}

/// What is known of a candidate.
pub(crate) enum Content {
    /// All of it.
    Document(Bytes),
    /// The fields of an index that covers the query.
    Part(RawDocumentBuf),
}

enum Source {
    Collection(Entries),
    Ids {
        state: Arc<IndexState>,
        keys: Box<dyn Iterator<Item = Vec<u8>> + Send>,
        is_covered: bool,
    },
    Index(IndexSource),
}

struct IndexSource {
    state: Arc<IndexState>,
    walk: Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send>,
    is_covered: bool,
}

/// What a source leads to next.
enum Next {
    Found(RecordId, Content),
    Record(RecordId),
}

impl Records {
    pub(crate) fn new(view: View, collection: &Collection, access: Access) -> Records {
        let repeats = match &access {
            Access::Collection(_) | Access::Ids(_) => false,
            Access::Index(index) => index.multikey,
            Access::Union(_) => true,
        };
        let mut sources = Vec::new();
        add_sources(&view, collection, access, &mut sources);
        sources.reverse();
        Records {
            view,
            collection: collection.id,
            sources,
            seen: repeats.then(HashSet::new),
            examined: Examined::default(),
        }
    }

    fn advance(&mut self) -> Result<Option<(RecordId, Content)>> {
        while let Some(source) = self.sources.last_mut() {
            let Some(next) = source.advance(&self.view, &mut self.examined)? else {
                self.sources.pop();
                continue;
            };
            let record = match next {
                Next::Found(record, content) => {
                    let is_read = matches!(content, Content::Document(_));
                    self.examined.documents += u64::from(is_read);
                    return Ok(Some((record, content)));
                }
                Next::Record(record) => record,
            };
            if self.seen.as_mut().is_none_or(|seen| seen.insert(record)) {
                self.examined.documents += 1;
                let document = self.view.get(&key::record(self.collection, record))?;
                let orphan = || Error::damaged("an index entry leads to no document");
                let document = Content::Document(document.ok_or_else(orphan)?);
                return Ok(Some((record, document)));
            }
        }
        Ok(None)
    }
}

impl Iterator for Records {
    type Item = Result<(RecordId, Content)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

impl Content {
    pub(crate) fn document(&self) -> Result<&RawDocument> {
        match self {
            Content::Document(bytes) => RawDocument::from_bytes(&**bytes)
                .map_err(|error| Error::damaged(format!("a document cannot be read: {error}"))),
            Content::Part(part) => Ok(part),
        }
    }
}

fn add_sources(view: &View, collection: &Collection, access: Access, sources: &mut Vec<Source>) {
    match access {
        Access::Collection(direction) => {
            let range = KeyRange::prefix(&key::records(collection.id));
            sources.push(Source::Collection(view.range(range, direction)));
        }
        Access::Ids(ids) => sources.push(Source::Ids {
            state: ids.state,
            keys: ids.keys,
            is_covered: ids.is_covered,
        }),
        Access::Index(index) => sources.push(Source::Index(IndexSource::new(view, index))),
        Access::Union(branches) => {
            for branch in branches {
                add_sources(view, collection, branch, sources);
            }
        }
    }
}

impl Source {
    fn advance(&mut self, view: &View, examined: &mut Examined) -> Result<Option<Next>> {
        match self {
            Source::Collection(entries) => {
                let Some(entry) = entries.next() else {
                    return Ok(None);
                };
                let (key, value) = entry?;
                let record = key::trailing_record(&key)?;
                Ok(Some(Next::Found(record, Content::Document(value))))
            }
            Source::Ids {
                state,
                keys,
                is_covered,
            } => {
                for key in keys {
                    interrupt::check()?;
                    examined.keys += 1;
                    if let Some(value) = view.get(&key)? {
                        return next(state, &key, &value, *is_covered).map(Some);
                    }
                }
                Ok(None)
            }
            Source::Index(index) => {
                let Some(entry) = index.walk.next() else {
                    return Ok(None);
                };
                examined.keys += 1;
                let (key, value) = entry?;
                next(&index.state, &key, &value, index.is_covered).map(Some)
            }
        }
    }
}

/// What an entry of an index leads to.
fn next(state: &IndexState, key: &[u8], value: &[u8], is_covered: bool) -> Result<Next> {
    let entry = state.entry(key, value)?;
    if !is_covered {
        return Ok(Next::Record(entry.record));
    }
    let part = state.part_of(entry.key, entry.beside)?;
    Ok(Next::Found(entry.record, Content::Part(part)))
}

impl IndexSource {
    fn new(view: &View, index: IndexAccess) -> IndexSource {
        let (view, direction) = (view.clone(), index.direction);
        let walk: Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send> = match index.walk {
            Walk::InTurn(ranges) => {
                Box::new(ranges.flat_map(move |range| match interrupt::check() {
                    Ok(()) => view.range(range, direction),
                    Err(interrupted) => Box::new(std::iter::once(Err(interrupted))),
                }))
            }
            Walk::Merged(ranges) => Box::new(Merged::new(&view, ranges, direction)),
        };
        IndexSource {
            state: index.state,
            walk,
            is_covered: index.is_covered,
        }
    }
}
