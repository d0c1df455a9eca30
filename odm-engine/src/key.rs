//! The keys of the store. They define the order of all entries.
//!
//! | first byte | then | value |
//! |---|---|---|
//! | `00` | `format` | version of this layout, 4 bytes |
//! | `00` | `log` | start of the write-ahead log, 16 or 32 bytes |
//! | `01` | collection's name | the collection's definition, BSON |
//! | `02` | collection 4, record 8 | a document, BSON |
//! | `03` | collection 4, index 4, key, record 8 | empty: an entry of an index |
//! | `04` | collection 4, index 4, key | record 8: an entry of a unique index |
//! | `05` | collection 4, index 4, field 1 | empty: the index has array elements in that field |
//! | `06` | `changes` | settings of the change log, BSON |
//! | `07` | event 8 | position and time of the event, 24 bytes; the event, BSON |
//! | `08` | a prefix of keys | empty, or 8 random bytes: the keys are to be removed, see [`crate::commit`] |
//!
//! Numbers are unsigned and big-endian, with the given number of bytes. A record is a document's number in order of insertion.
//! The index of `_id` is the unique index 0. The `key` of an entry is one [encoded](value) value per field of the index.
//!
//! `docs/format.md` describes the same layout for readers of the file.

pub(crate) mod value;

use crate::direction::Direction;
use crate::error::{Error, Result};
use crate::store::{KeyRange, Snapshot};

const FORMAT_PREFIX: u8 = 0x00;
const CATALOG_PREFIX: u8 = 0x01;
const RECORD_PREFIX: u8 = 0x02;
const INDEX_ENTRY_PREFIX: u8 = 0x03;
const UNIQUE_ENTRY_PREFIX: u8 = 0x04;
const MULTIKEY_PREFIX: u8 = 0x05;
const CHANGE_LOG_PREFIX: u8 = 0x06;
const EVENT_PREFIX: u8 = 0x07;
const REMOVAL_PREFIX: u8 = 0x08;

/// The length of the key of a document.
const RECORD_KEY_BYTES: usize = 1 + size_of::<u32>() + size_of::<RecordId>();

/// The number of a document within its collection, in order of insertion.
pub(crate) type RecordId = u64;

/// Returns the key of the format version.
pub(crate) fn for_format_version() -> Vec<u8> {
    let mut key = vec![FORMAT_PREFIX];
    key.extend_from_slice(b"format");
    key
}

/// Returns the key of the start of the write-ahead log.
pub(crate) fn for_log_start() -> Vec<u8> {
    let mut key = vec![FORMAT_PREFIX];
    key.extend_from_slice(b"log");
    key
}

/// Whether `key` is the key of the format version.
pub(crate) fn is_format_version(key: &[u8]) -> bool {
    matches!(key.split_first(), Some((&FORMAT_PREFIX, b"format")))
}

/// Whether `key` belongs to the change log.
pub(crate) fn is_of_change_log(key: &[u8]) -> bool {
    matches!(key.first(), Some(&CHANGE_LOG_PREFIX | &EVENT_PREFIX))
}

/// Whether `key` is the key of a document or of an entry of an index.
pub(crate) fn is_document_or_index_entry(key: &[u8]) -> bool {
    matches!(
        key.first(),
        Some(&RECORD_PREFIX | &INDEX_ENTRY_PREFIX | &UNIQUE_ENTRY_PREFIX)
    )
}

/// Describes the content under a key, for error messages.
pub(crate) fn describe_content(key: &[u8]) -> &'static str {
    match key.first() {
        Some(&CATALOG_PREFIX) => "the definition of a collection",
        Some(&RECORD_PREFIX) => "a document",
        Some(&INDEX_ENTRY_PREFIX | &UNIQUE_ENTRY_PREFIX | &MULTIKEY_PREFIX) => "a part of an index",
        Some(&CHANGE_LOG_PREFIX | &EVENT_PREFIX) => "a part of the change log",
        _ => "something",
    }
}

/// Returns the key of a collection's definition.
pub(crate) fn for_catalog(collection: &str) -> Vec<u8> {
    let mut key = catalog_prefix();
    key.extend_from_slice(collection.as_bytes());
    key
}

/// The common prefix of the keys of all collection definitions.
pub(crate) fn catalog_prefix() -> Vec<u8> {
    vec![CATALOG_PREFIX]
}

/// Returns the collection name from the key of a definition.
pub(crate) fn catalog_name(key: &[u8]) -> Result<&str> {
    key.split_first()
        .and_then(|(_, name)| std::str::from_utf8(name).ok())
        .ok_or_else(|| Error::damaged("the name of a collection cannot be read"))
}

/// Returns the key of a document.
pub(crate) fn for_record(collection: u32, record: RecordId) -> [u8; RECORD_KEY_BYTES] {
    let mut key = [RECORD_PREFIX; RECORD_KEY_BYTES];
    let (_, numbers) = key.split_at_mut(1);
    let (collection_bytes, record_bytes) = numbers.split_at_mut(size_of::<u32>());
    collection_bytes.copy_from_slice(&collection.to_be_bytes());
    record_bytes.copy_from_slice(&record.to_be_bytes());
    key
}

/// The common prefix of the keys of a collection's documents.
pub(crate) fn record_prefix(collection: u32) -> Vec<u8> {
    let mut key = vec![RECORD_PREFIX];
    key.extend_from_slice(&collection.to_be_bytes());
    key
}

/// The common prefix of the keys of an index's entries.
pub(crate) fn entry_prefix(collection: u32, index: u32, unique: bool) -> Vec<u8> {
    let kind = if unique {
        UNIQUE_ENTRY_PREFIX
    } else {
        INDEX_ENTRY_PREFIX
    };
    index_prefix(kind, collection, index)
}

/// Returns the key of the marker that a field of an index has array elements.
pub(crate) fn for_multikey(collection: u32, index: u32, field: u8) -> Vec<u8> {
    let mut key = multikey_prefix(collection, index);
    key.push(field);
    key
}

/// The common prefix of the keys of an index's [multikey](for_multikey) markers.
pub(crate) fn multikey_prefix(collection: u32, index: u32) -> Vec<u8> {
    index_prefix(MULTIKEY_PREFIX, collection, index)
}

/// The prefixes of all keys of a collection, except for the key of its definition.
pub(crate) fn collection_prefixes(collection: u32) -> [Vec<u8>; 4] {
    [
        RECORD_PREFIX,
        INDEX_ENTRY_PREFIX,
        UNIQUE_ENTRY_PREFIX,
        MULTIKEY_PREFIX,
    ]
    .map(|kind| {
        let mut prefix = vec![kind];
        prefix.extend_from_slice(&collection.to_be_bytes());
        prefix
    })
}

/// Returns the record number at the end of the key of a document or index entry.
pub(crate) fn trailing_record(key: &[u8]) -> Result<RecordId> {
    key.last_chunk()
        .map(|bytes| RecordId::from_be_bytes(*bytes))
        .ok_or_else(|| Error::damaged("a key is too short"))
}

/// Returns the key of the change log's settings.
pub(crate) fn for_change_log() -> Vec<u8> {
    let mut key = vec![CHANGE_LOG_PREFIX];
    key.extend_from_slice(b"changes");
    key
}

/// Returns the key of an event of the change log.
pub(crate) fn for_event(number: u64) -> Vec<u8> {
    let mut key = event_prefix();
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The common prefix of the keys of all events.
pub(crate) fn event_prefix() -> Vec<u8> {
    vec![EVENT_PREFIX]
}

/// Returns the event number from the key of an event.
pub(crate) fn event_number(key: &[u8]) -> Result<u64> {
    key.last_chunk()
        .map(|bytes| u64::from_be_bytes(*bytes))
        .ok_or_else(|| Error::damaged("a key is too short"))
}

/// Returns the key of the mark that the keys with a prefix are to be removed.
pub(crate) fn for_removal(prefix: &[u8]) -> Vec<u8> {
    let mut key = vec![REMOVAL_PREFIX];
    key.extend_from_slice(prefix);
    key
}

/// The common prefix of the marks for removals.
pub(crate) fn removal_prefix() -> Vec<u8> {
    vec![REMOVAL_PREFIX]
}

/// Whether `key` is a mark for a removal.
pub(crate) fn is_removal_mark(key: &[u8]) -> bool {
    key.first() == Some(&REMOVAL_PREFIX)
}

/// Returns the prefixes that are marked for removal, in order.
///
/// # Errors
/// I/O, damaged.
pub(crate) fn removal_marks(snapshot: &dyn Snapshot) -> Result<Vec<Vec<u8>>> {
    let marks = KeyRange::with_prefix(&removal_prefix());
    let marks = snapshot.range(marks, Direction::Ascending);
    let prefixes = marks.map(|entry| match entry?.0.split_first() {
        Some((_, prefix)) if !prefix.is_empty() => Ok(prefix.to_vec()),
        _ => Err(Error::damaged("a mark for a removal is empty")),
    });
    prefixes.collect()
}

/// Returns the collection of a prefix of documents, index entries or multikey markers.
pub(crate) fn collection_of_prefix(prefix: &[u8]) -> Option<u32> {
    let number = prefix.get(1..)?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Whether two transactions that write this key conflict.
///
/// Three kinds of keys never conflict. Entries of non-unique indexes follow from the documents. A multikey marker has the same
/// value for every writer. Events get their numbers at the commit.
pub(crate) fn is_contended(key: &[u8]) -> bool {
    !matches!(
        key.first(),
        Some(&INDEX_ENTRY_PREFIX | &MULTIKEY_PREFIX | &EVENT_PREFIX)
    )
}

fn index_prefix(kind: u8, collection: u32, index: u32) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&collection.to_be_bytes());
    key.extend_from_slice(&index.to_be_bytes());
    key
}
