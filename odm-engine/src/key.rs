//! The keys of the store, which decide the order of everything in it.
//!
//! | first byte | then | value |
//! |---|---|---|
//! | `00` | `format` | version of this layout, 4 bytes |
//! | `01` | collection's name | the collection's definition, BSON |
//! | `02` | collection 4, record 8 | a document, BSON |
//! | `03` | collection 4, index 4, key, record 8 | nothing: an entry of an index |
//! | `04` | collection 4, index 4, key | record 8: an entry of a unique index |
//! | `05` | collection 4, index 4, field 1 | nothing: the index has array elements in that field |
//! | `06` | `changes` | what the change log keeps, BSON |
//! | `07` | event 8 | its place and time, 24 bytes; the event, BSON |
//!
//! Numbers are unsigned and big-endian. A record is a document's number in order of insertion; the
//! index of `_id` is the unique index 0. The `key` of an entry is one [encoded](value) value per field
//! of the index.
//!
//! `docs/format.md` describes the same for readers of the file.

pub(crate) mod value;

use crate::error::{Error, Result};

const FORMAT: u8 = 0x00;
const CATALOG: u8 = 0x01;
const RECORD: u8 = 0x02;
const ENTRY: u8 = 0x03;
const UNIQUE_ENTRY: u8 = 0x04;
const MULTIKEY: u8 = 0x05;
const CHANGE_LOG: u8 = 0x06;
const EVENT: u8 = 0x07;

/// The number of a document within its collection, in order of insertion.
pub(crate) type RecordId = u64;

/// The key of the version of the layout.
pub(crate) fn format() -> Vec<u8> {
    let mut key = vec![FORMAT];
    key.extend_from_slice(b"format");
    key
}

/// Whether this is the key of the version of the layout.
pub(crate) fn is_format(key: &[u8]) -> bool {
    key.first() == Some(&FORMAT)
}

/// Whether this is a key of the change log.
pub(crate) fn is_of_change_log(key: &[u8]) -> bool {
    matches!(key.first(), Some(&CHANGE_LOG | &EVENT))
}

/// What is stored under a key, in a few words.
pub(crate) fn describe(key: &[u8]) -> &'static str {
    match key.first() {
        Some(&CATALOG) => "the definition of a collection",
        Some(&RECORD) => "a document",
        Some(&ENTRY | &UNIQUE_ENTRY | &MULTIKEY) => "a part of an index",
        Some(&CHANGE_LOG | &EVENT) => "a part of the change log",
        _ => "something",
    }
}

/// The key of a collection's definition.
pub(crate) fn catalog(collection: &str) -> Vec<u8> {
    let mut key = catalog_prefix();
    key.extend_from_slice(collection.as_bytes());
    key
}

/// What the keys of all collections' definitions begin with.
pub(crate) fn catalog_prefix() -> Vec<u8> {
    vec![CATALOG]
}

/// The name in the key of a collection's definition.
pub(crate) fn catalog_name(key: &[u8]) -> Result<&str> {
    key.split_first()
        .and_then(|(_, name)| std::str::from_utf8(name).ok())
        .ok_or_else(|| Error::damaged("the name of a collection cannot be read"))
}

/// The key of a document.
pub(crate) fn record(collection: u32, record: RecordId) -> Vec<u8> {
    let mut key = records(collection);
    key.extend_from_slice(&record.to_be_bytes());
    key
}

/// What the keys of a collection's documents begin with.
pub(crate) fn records(collection: u32) -> Vec<u8> {
    let mut key = vec![RECORD];
    key.extend_from_slice(&collection.to_be_bytes());
    key
}

/// What the keys of an index's entries begin with.
pub(crate) fn entries(collection: u32, index: u32, unique: bool) -> Vec<u8> {
    let kind = if unique { UNIQUE_ENTRY } else { ENTRY };
    index_prefix(kind, collection, index)
}

/// The key of the mark that a field of an index has array elements.
pub(crate) fn multikey(collection: u32, index: u32, field: u8) -> Vec<u8> {
    let mut key = multikeys(collection, index);
    key.push(field);
    key
}

/// What the keys of an index's [`multikey`] marks begin with.
pub(crate) fn multikeys(collection: u32, index: u32) -> Vec<u8> {
    index_prefix(MULTIKEY, collection, index)
}

/// What all keys of a collection begin with, but for that of its definition.
pub(crate) fn of_collection(collection: u32) -> [Vec<u8>; 4] {
    [RECORD, ENTRY, UNIQUE_ENTRY, MULTIKEY].map(|kind| {
        let mut prefix = vec![kind];
        prefix.extend_from_slice(&collection.to_be_bytes());
        prefix
    })
}

/// The record number at the end of a document's key or of an entry's key.
pub(crate) fn trailing_record(key: &[u8]) -> Result<RecordId> {
    key.last_chunk()
        .map(|bytes| RecordId::from_be_bytes(*bytes))
        .ok_or_else(|| Error::damaged("a key is too short"))
}

/// The key of what the change log keeps.
pub(crate) fn change_log() -> Vec<u8> {
    let mut key = vec![CHANGE_LOG];
    key.extend_from_slice(b"changes");
    key
}

/// The key of an event of the change log.
pub(crate) fn event(number: u64) -> Vec<u8> {
    let mut key = events();
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// What the keys of all events begin with.
pub(crate) fn events() -> Vec<u8> {
    vec![EVENT]
}

/// The number in the key of an event.
pub(crate) fn event_number(key: &[u8]) -> Result<u64> {
    key.last_chunk()
        .map(|bytes| u64::from_be_bytes(*bytes))
        .ok_or_else(|| Error::damaged("a key is too short"))
}

/// Whether two writers of this key exclude each other.
///
/// The entries of indexes that are not unique follow from the documents, a multikey mark is the same
/// whoever sets it, and events are numbered when they are committed.
pub(crate) fn is_contended(key: &[u8]) -> bool {
    !matches!(key.first(), Some(&ENTRY | &MULTIKEY | &EVENT))
}

fn index_prefix(kind: u8, collection: u32, index: u32) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend_from_slice(&collection.to_be_bytes());
    key.extend_from_slice(&index.to_be_bytes());
    key
}
