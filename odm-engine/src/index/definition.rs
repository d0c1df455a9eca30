use bson::{RawDocument, RawDocumentBuf};

use super::part::{self, PartProjection};
use super::wildcard::Coverage;
use super::{Direction, Index, collation};
use crate::collation::Collator;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::key::{self, RecordId};
use crate::path::{Path, PathPart};
use crate::value;

/// The number of the index of `_id`, which every collection has.
pub(crate) const ID_INDEX: u32 = 0;

/// An existing index: its definition, and values derived from the definition.
pub(crate) struct IndexState {
    pub(crate) id: u32,
    pub(crate) index: Index,
    /// The parsed paths of the definition, in the same order.
    pub(crate) paths: Vec<Path>,
    /// The parsed filter of the definition.
    pub(crate) partial: Option<Filter>,
    /// The common prefix of the keys of the entries.
    pub(crate) prefix: Vec<u8>,
    /// The part of a document that an entry contains.
    pub(crate) part: Option<PartProjection>,
    /// The indexed paths of a wildcard index.
    pub(crate) coverage: Option<Coverage>,
    /// The collator of an index with a collation.
    pub(crate) collator: Option<Collator>,
    /// The [version of the rules](Collator::rules) for the keys of an index with a collation.
    pub(crate) rules: Option<i64>,
}

/// A decoded entry of an index.
pub(crate) struct IndexEntry<'e> {
    pub(crate) record: RecordId,
    /// The encoded values of the fields.
    pub(crate) key: &'e [u8],
    /// The stored document part, empty if the key determines the part.
    pub(crate) stored_part: &'e [u8],
}

impl IndexState {
    pub(crate) fn new(collection: u32, id: u32, index: Index) -> Result<IndexState> {
        let collator = index.collation.as_ref().map(Collator::new).transpose()?;
        let mut partial = index.partial.as_deref().map(Filter::parse).transpose()?;
        if let (Some(filter), Some(collator)) = (&index.partial, &collator) {
            partial = Some(Filter::parse(&collation::keyed_filter(filter, collator))?);
        }
        let paths = parse_paths(&index);
        let coverage = index.is_wildcard().then(|| Coverage::of_index(&index));
        let coverage = coverage.transpose()?;
        // Hashes and collation keys cannot be decoded, and an entry of a wildcard index has only one value of many.
        let has_parts = index.hashed.is_none() && coverage.is_none() && collator.is_none();
        Ok(IndexState {
            id,
            prefix: key::entry_prefix(collection, id, index.unique),
            part: has_parts.then(|| PartProjection::new(&paths)).flatten(),
            paths,
            index,
            partial,
            coverage,
            collator,
            rules: None,
        })
    }

    /// Whether the keys or the stored part of a document can change. `changed_fields` has the top-level fields in which the documents
    /// differ.
    pub(crate) fn is_affected(
        &self,
        old: &RawDocument,
        new: &RawDocument,
        changed_fields: &[&[u8]],
    ) -> bool {
        // A wildcard index covers many fields, and the condition of a partial index can name any field.
        if self.coverage.is_some() || self.partial.is_some() {
            return true;
        }
        let is_root_changed = self.paths.iter().any(|path| {
            let root = path.parts().first().map(|part| part.name().as_bytes());
            root.is_none_or(|root| changed_fields.contains(&root))
        });
        // With several fields, the order in the document is a part of the entry.
        is_root_changed
            && match self.paths.as_slice() {
                [path] => !value::is_same_at(old, new, path.parts().iter().map(PathPart::name)),
                _ => true,
            }
    }

    /// Returns the index with a different version of the collation rules.
    pub(crate) fn with_rules(self, rules: Option<i64>) -> IndexState {
        IndexState { rules, ..self }
    }

    /// Returns the current version of the collation rules, if the index has a collation. The computation takes some time.
    pub(crate) fn current_rules(&self) -> Option<i64> {
        self.collator.as_ref().map(Collator::rules)
    }

    /// Returns the collator for the filter of the index, if the filter compares strings.
    pub(crate) fn partial_collator(&self) -> Option<&Collator> {
        let compares = |partial: &RawDocumentBuf| collation::compares_strings(partial);
        let partial = self.index.partial.as_ref();
        self.collator
            .as_ref()
            .filter(|_| partial.is_some_and(compares))
    }

    /// Returns the index of `_id`. It is always unique, so listings do not show the option.
    pub(crate) fn of_id(collection: u32) -> IndexState {
        let mut index = Index::new([("_id", Direction::Ascending)]).named("_id_");
        index.unique = true;
        let paths = parse_paths(&index);
        IndexState {
            id: ID_INDEX,
            prefix: key::entry_prefix(collection, ID_INDEX, true),
            part: PartProjection::new(&paths),
            paths,
            index,
            partial: None,
            coverage: None,
            collator: None,
            rules: None,
        }
    }

    /// Splits the key and value of an entry.
    ///
    /// # Errors
    /// The entry is damaged.
    pub(crate) fn split_entry<'e>(&self, key: &'e [u8], value: &'e [u8]) -> Result<IndexEntry<'e>> {
        let damaged = || Error::damaged("an entry of an index is too short");
        let key = key.get(self.prefix.len()..).ok_or_else(damaged)?;
        // The record is at the end of the key, or at the end of the value in a unique index.
        let record_bytes = if self.index.unique { value } else { key };
        let (rest, record) = record_bytes.split_last_chunk().ok_or_else(damaged)?;
        let (key, stored_part) = if self.index.unique {
            (key, rest)
        } else {
            (rest, value)
        };
        let record = RecordId::from_be_bytes(*record);
        Ok(IndexEntry {
            record,
            key,
            stored_part,
        })
    }

    /// Returns the document part from a document's only entry, given the entry's key and stored part.
    ///
    /// # Errors
    /// The entry is damaged.
    pub(crate) fn read_part(&self, key: &[u8], stored_part: &[u8]) -> Result<RawDocumentBuf> {
        part::read_part(&self.index, &self.paths, key, stored_part)
    }

    /// Returns the definition for listings.
    pub(crate) fn to_listed(&self) -> Index {
        let mut index = self.index.clone();
        if self.id == ID_INDEX {
            index.unique = false;
        }
        index
    }
}

fn parse_paths(index: &Index) -> Vec<Path> {
    index.keys.iter().map(|(path, _)| Path::new(path)).collect()
}
