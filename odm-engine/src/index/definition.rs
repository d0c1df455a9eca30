use bson::RawDocumentBuf;

use super::part::{self, Part};
use super::wildcard::Coverage;
use super::{Collator, Direction, Index, collation};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::key::{self, RecordId};
use crate::path::Path;

/// The number of the index of `_id`, which every collection has.
pub(crate) const ID_INDEX: u32 = 0;

/// An index that exists: its definition with what is derived from it once.
pub(crate) struct IndexState {
    pub(crate) id: u32,
    pub(crate) index: Index,
    /// The definition's paths, parsed, in the same order.
    pub(crate) paths: Vec<Path>,
    /// The definition's filter, parsed.
    pub(crate) partial: Option<Filter>,
    /// What the keys of its entries begin with.
    pub(crate) prefix: Vec<u8>,
    /// What its entries have of a document.
    pub(crate) part: Option<Part>,
    /// The paths that it is about, if it is a wildcard index.
    pub(crate) coverage: Option<Coverage>,
    /// What makes keys of strings, if the index has a collation.
    pub(crate) collator: Option<Collator>,
    /// The [version of the rules](Collator::rules) by which its keys were made, if it has a collation.
    pub(crate) rules: Option<i64>,
}

/// What an entry of an index says.
pub(crate) struct Entry<'e> {
    pub(crate) record: RecordId,
    /// The encoded values of the fields.
    pub(crate) key: &'e [u8],
    /// What stands beside the key.
    pub(crate) beside: &'e [u8],
}

impl IndexState {
    pub(crate) fn new(collection: u32, id: u32, index: Index) -> Result<IndexState> {
        let collator = index.collation.as_ref().map(Collator::new).transpose()?;
        let mut partial = index.partial.as_deref().map(Filter::parse).transpose()?;
        if let (Some(filter), Some(collator)) = (&index.partial, &collator) {
            partial = Some(Filter::parse(&collation::keyed_filter(filter, collator))?);
        }
        let paths = paths(&index);
        let coverage = index.is_wildcard().then(|| Coverage::of(&index));
        let coverage = coverage.transpose()?;
        // Nothing leads back from a hash or a collation key, and an entry of a wildcard index is one value of many.
        let has_parts = index.hashed.is_none() && coverage.is_none() && collator.is_none();
        Ok(IndexState {
            id,
            prefix: key::entries(collection, id, index.unique),
            part: has_parts.then(|| Part::new(&paths)).flatten(),
            paths,
            index,
            partial,
            coverage,
            collator,
            rules: None,
        })
    }

    /// The same index, whose keys are made by these rules.
    pub(crate) fn with_rules(self, rules: Option<i64>) -> IndexState {
        IndexState { rules, ..self }
    }

    /// The rules by which keys are made now, if the index has a collation. This takes a moment.
    pub(crate) fn current_rules(&self) -> Option<i64> {
        self.collator.as_ref().map(Collator::rules)
    }

    /// What makes keys of the strings of a document for the filter of this index, if that compares any.
    pub(crate) fn partial_collator(&self) -> Option<&Collator> {
        let compares = |partial: &RawDocumentBuf| collation::compares_strings(partial);
        let partial = self.index.partial.as_ref();
        self.collator
            .as_ref()
            .filter(|_| partial.is_some_and(compares))
    }

    /// The index of `_id`. It is unique by nature: listings do not show that as an option.
    pub(crate) fn of_id(collection: u32) -> IndexState {
        let mut index = Index::new([("_id", Direction::Ascending)]).named("_id_");
        index.unique = true;
        let paths = paths(&index);
        IndexState {
            id: ID_INDEX,
            prefix: key::entries(collection, ID_INDEX, true),
            part: Part::new(&paths),
            paths,
            index,
            partial: None,
            coverage: None,
            collator: None,
            rules: None,
        }
    }

    /// Takes an entry apart.
    ///
    /// # Errors
    /// The entry is damaged.
    pub(crate) fn entry<'e>(&self, key: &'e [u8], value: &'e [u8]) -> Result<Entry<'e>> {
        let damaged = || Error::damaged("an entry of an index is too short");
        let key = key.get(self.prefix.len()..).ok_or_else(damaged)?;
        // What says the record stands behind the key, or behind its value in a unique index.
        let with_record = if self.index.unique { value } else { key };
        let (rest, record) = with_record.split_last_chunk().ok_or_else(damaged)?;
        let (key, beside) = if self.index.unique {
            (key, rest)
        } else {
            (rest, value)
        };
        let record = RecordId::from_be_bytes(*record);
        Ok(Entry {
            record,
            key,
            beside,
        })
    }

    /// The part of a document that stands in its only entry: with this key, and this beside it.
    ///
    /// # Errors
    /// The entry is damaged.
    pub(crate) fn part_of(&self, key: &[u8], beside: &[u8]) -> Result<RawDocumentBuf> {
        part::read(&self.index, &self.paths, key, beside)
    }

    /// The definition for people and for the catalog.
    pub(crate) fn listed(&self) -> Index {
        let mut index = self.index.clone();
        if self.id == ID_INDEX {
            index.unique = false;
        }
        index
    }
}

fn paths(index: &Index) -> Vec<Path> {
    index.keys.iter().map(|(path, _)| Path::new(path)).collect()
}
