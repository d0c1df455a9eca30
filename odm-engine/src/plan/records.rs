use std::collections::HashSet;
use std::vec::IntoIter;

use super::{Access, IndexAccess};
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::{Error, Result};
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

enum Source {
    Collection(Entries),
    Ids(IntoIter<Vec<u8>>),
    Index(IndexSource),
}

struct IndexSource {
    ranges: IntoIter<KeyRange>,
    current: Option<Entries>,
    direction: Direction,
    unique: bool,
}

/// What a source leads to next.
enum Next {
    Document(RecordId, Bytes),
    Record(RecordId),
}

impl Records {
    pub(crate) fn new(view: View, collection: &Collection, access: Access) -> Records {
        let repeats = match &access {
            Access::Collection | Access::Ids(_) => false,
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

    fn advance(&mut self) -> Result<Option<(RecordId, Bytes)>> {
        while let Some(source) = self.sources.last_mut() {
            let Some(next) = source.advance(&self.view, &mut self.examined)? else {
                self.sources.pop();
                continue;
            };
            let record = match next {
                Next::Document(record, bytes) => {
                    self.examined.documents += 1;
                    return Ok(Some((record, bytes)));
                }
                Next::Record(record) => record,
            };
            if self.seen.as_mut().is_none_or(|seen| seen.insert(record)) {
                self.examined.documents += 1;
                let document = self.view.get(&key::record(self.collection, record))?;
                let orphan = || Error::damaged("an index entry leads to no document");
                return Ok(Some((record, document.ok_or_else(orphan)?)));
            }
        }
        Ok(None)
    }
}

impl Iterator for Records {
    type Item = Result<(RecordId, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

fn add_sources(view: &View, collection: &Collection, access: Access, sources: &mut Vec<Source>) {
    match access {
        Access::Collection => {
            let range = KeyRange::prefix(&key::records(collection.id));
            sources.push(Source::Collection(view.range(range, Direction::Ascending)));
        }
        Access::Ids(ids) => sources.push(Source::Ids(ids.into_iter())),
        Access::Index(index) => sources.push(Source::Index(IndexSource::new(index))),
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
                Ok(Some(Next::Document(key::trailing_record(&key)?, value)))
            }
            Source::Ids(ids) => {
                for id in ids {
                    examined.keys += 1;
                    if let Some(entry) = view.get(&id)? {
                        return Ok(Some(Next::Record(key::trailing_record(&entry)?)));
                    }
                }
                Ok(None)
            }
            Source::Index(index) => {
                let record = index.advance(view)?;
                examined.keys += u64::from(record.is_some());
                Ok(record.map(Next::Record))
            }
        }
    }
}

impl IndexSource {
    fn new(index: IndexAccess) -> IndexSource {
        IndexSource {
            ranges: index.ranges.into_iter(),
            current: None,
            direction: index.direction,
            unique: index.state.index.unique,
        }
    }

    fn advance(&mut self, view: &View) -> Result<Option<RecordId>> {
        loop {
            if let Some(entry) = self.current.as_mut().and_then(Iterator::next) {
                let (key, value) = entry?;
                let holder = if self.unique { &value } else { &key };
                return key::trailing_record(holder).map(Some);
            }
            let Some(range) = self.ranges.next() else {
                return Ok(None);
            };
            self.current = Some(view.range(range, self.direction));
        }
    }
}
