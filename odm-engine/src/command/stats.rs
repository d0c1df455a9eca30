use super::ReadState;
use crate::catalog::Collection;
use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::index::{Index, IndexState};
use crate::interrupt;
use crate::key;
use crate::store::{KeyRange, Snapshot, StorageUsage, StoreView, read_format_version};

/// The sizes of a database. See [`Database::stats`](crate::Database::stats).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DatabaseStats {
    /// The length of the file in bytes; `None` for a database in memory.
    pub file_bytes: Option<u64>,
    /// The bytes of the write-ahead log that hold commits; `None` without a log.
    pub log_bytes: Option<u64>,
    /// The version of the format, as in `docs/format.md`.
    pub format_version: u32,
    /// The collections, in byte order of the names.
    pub collections: Vec<CollectionStats>,
}

/// The sizes of a collection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CollectionStats {
    /// The name of the collection.
    pub name: String,
    /// The number of documents.
    pub documents: u64,
    /// The bytes of all documents as BSON, without keys and checksums.
    pub document_bytes: u64,
    /// The indexes, starting with the index of `_id`.
    pub indexes: Vec<IndexStats>,
}

/// The sizes of an index.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexStats {
    /// The definition of the index.
    pub index: Index,
    /// The number of entries. A document has one entry for each of its distinct keys.
    pub entries: u64,
    /// The bytes of all entries, without checksums: keys and document parts.
    pub entry_bytes: u64,
}

/// Counts all documents and all index entries.
pub(crate) fn run_stats(reading: ReadState<'_>, usage: StorageUsage) -> Result<DatabaseStats> {
    let version = read_format_version(reading.view)?;
    let collections = reading.catalog.collections();
    let collections = collections.map(|collection| collection_stats(reading.view, collection));
    Ok(DatabaseStats {
        file_bytes: usage.file_bytes,
        log_bytes: usage.log_bytes,
        format_version: version.ok_or_else(|| Error::damaged("it has no format version"))?,
        collections: collections.collect::<Result<_>>()?,
    })
}

/// Counts the documents and the index entries of a collection.
pub(crate) fn run_collection_stats(
    reading: ReadState<'_>,
    name: &str,
) -> Result<Option<CollectionStats>> {
    let collection = reading.catalog.get(name);
    collection
        .map(|collection| collection_stats(reading.view, collection))
        .transpose()
}

fn collection_stats(view: &StoreView, collection: &Collection) -> Result<CollectionStats> {
    let documents = count_entries(view, &key::record_prefix(collection.id))?;
    let indexes = collection.indexes.iter();
    let indexes = indexes.map(|state| index_stats(view, state));
    Ok(CollectionStats {
        name: collection.name.clone(),
        documents: documents.count,
        document_bytes: documents.value_bytes,
        indexes: indexes.collect::<Result<_>>()?,
    })
}

fn index_stats(view: &StoreView, state: &IndexState) -> Result<IndexStats> {
    let entries = count_entries(view, &state.prefix)?;
    Ok(IndexStats {
        index: state.index.clone(),
        entries: entries.count,
        entry_bytes: entries.key_bytes + entries.value_bytes,
    })
}

/// The number and the sizes of some entries of the store.
#[derive(Default)]
pub(super) struct EntrySizes {
    pub(super) count: u64,
    key_bytes: u64,
    value_bytes: u64,
}

/// Counts the entries with a key that begins with `prefix`.
pub(super) fn count_entries(view: &StoreView, prefix: &[u8]) -> Result<EntrySizes> {
    let mut sizes = EntrySizes::default();
    for entry in view.range(KeyRange::with_prefix(prefix), Direction::Ascending) {
        interrupt::check()?;
        let (key, value) = entry?;
        sizes.count += 1;
        sizes.key_bytes += key.len() as u64;
        sizes.value_bytes += value.len() as u64;
    }
    Ok(sizes)
}
