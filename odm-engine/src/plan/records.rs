use std::collections::HashSet;
use std::vec::IntoIter;

use super::Access;
use crate::catalog::Collection;
use crate::error::{Error, Result};
use crate::index::Direction;
use crate::key::{self, RecordId};
use crate::store::{Bytes, Entries, KeyRange, Snapshot, View};

/// The candidates that an [`Access`] leads to, each of them once.
pub(crate) struct Records {
    view: View,
    collection: u32,
    source: Source,
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
    Index {
        ranges: IntoIter<KeyRange>,
        current: Option<Entries>,
        direction: Direction,
        unique: bool,
        /// The records seen so far, where one can come again.
        seen: Option<HashSet<RecordId>>,
    },
}

impl Records {
    pub(crate) fn new(view: View, collection: &Collection, access: Access) -> Records {
        let source = match access {
            Access::Collection => {
                let range = KeyRange::prefix(&key::records(collection.id));
                Source::Collection(view.range(range, Direction::Ascending))
            }
            Access::Ids(ids) => Source::Ids(ids.into_iter()),
            Access::Index {
                state,
                ranges,
                direction,
                multikey,
            } => Source::Index {
                ranges: ranges.into_iter(),
                current: None,
                direction,
                unique: state.index.unique,
                seen: multikey.then(HashSet::new),
            },
        };
        Records {
            view,
            collection: collection.id,
            source,
            examined: Examined::default(),
        }
    }

    fn advance(&mut self) -> Result<Option<(RecordId, Bytes)>> {
        let record = match &mut self.source {
            Source::Collection(entries) => {
                let Some(entry) = entries.next() else {
                    return Ok(None);
                };
                let (key, value) = entry?;
                self.examined.documents += 1;
                return Ok(Some((key::trailing_record(&key)?, value)));
            }
            Source::Ids(ids) => loop {
                let Some(id) = ids.next() else {
                    return Ok(None);
                };
                self.examined.keys += 1;
                if let Some(entry) = self.view.get(&id)? {
                    break key::trailing_record(&entry)?;
                }
            },
            Source::Index {
                ranges,
                current,
                direction,
                unique,
                seen,
            } => loop {
                let Some(entry) = current.as_mut().and_then(Iterator::next) else {
                    let Some(range) = ranges.next() else {
                        return Ok(None);
                    };
                    *current = Some(self.view.range(range, *direction));
                    continue;
                };
                let (key, value) = entry?;
                self.examined.keys += 1;
                let record = key::trailing_record(if *unique { &value } else { &key })?;
                if seen.as_mut().is_none_or(|seen| seen.insert(record)) {
                    break record;
                }
            },
        };
        self.examined.documents += 1;
        match self.view.get(&key::record(self.collection, record))? {
            Some(document) => Ok(Some((record, document))),
            None => Err(Error::damaged("an index entry leads to no document")),
        }
    }
}

impl Iterator for Records {
    type Item = Result<(RecordId, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
