//! Storage of bytes: one ordered keyspace, read through snapshots and changed by atomic commits.
//!
//! Modules above this module see a [`Snapshot`] and a set of [`Changes`]. Only the modules below it do I/O. [`crate::key`]
//! defines the meaning of the keys.

mod bytes;
pub(crate) mod logged;
pub(crate) mod memory;
mod paged;
mod range;
pub(crate) mod redb;
mod view;

use std::fs::Permissions;
use std::sync::Arc;

use imbl::OrdMap;

pub(crate) use bytes::StoredBytes;
pub(crate) use range::{KeyRange, after_prefix};
pub(crate) use view::StoreView;

use crate::compaction::CompactionReport;
use crate::direction::Direction;
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::key;

/// The format version of new stores: with a write-ahead log.
pub(crate) const FORMAT_VERSION: u32 = 5;

/// The format version with checksums of pages, but without a write-ahead log. Files of this version stay without a log.
pub(crate) const PAGE_CHECKSUMS_VERSION: u32 = 4;

/// The format version with checksums of values, but not of pages. Files of this version stay without page checksums.
pub(crate) const VALUE_CHECKSUMS_VERSION: u32 = 3;

/// A keyspace, on disk or in memory.
pub(crate) trait Store: Send + Sync {
    /// Returns the state after the last commit. Later commits do not change a snapshot, and a snapshot does not block commits.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// Writes `changes` atomically, after all earlier commits. There is one caller at a time.
    fn commit(&self, changes: &Changes, durability: Durability) -> Result<(), CommitError>;

    /// Writes a large commit, atomically and durably. There is one caller at a time. [`commit`](Self::commit) may run meanwhile: then
    /// the keys of both commits differ, and snapshots have the small commit first.
    fn commit_large(&self, commit: &LargeCommit<'_>) -> Result<(), CommitError>;

    /// Called when readers see the last large commit, or when it has failed. Until then, readers can see a small commit without
    /// the large commit, so the small commit must be durable too.
    fn end_large_commit(&self) {}

    /// The size of changes, in bytes, from which [`commit_large`](Self::commit_large) is better than [`commit`](Self::commit).
    fn large_commit_bytes(&self) -> usize {
        LARGE_COMMIT_BYTES
    }

    /// The format version of a new store with the layout of this store.
    fn new_format(&self) -> u32 {
        FORMAT_VERSION
    }

    /// Moves a part of the write-ahead log to its final place, after a commit failed because the disk is full. Snapshots show the
    /// same content before and after the move. Returns `false` if the log is empty.
    ///
    /// The moved part needs little space, but the replaced pages are free only when no snapshot from before the move is left.
    fn spill(&self) -> Result<bool, CommitError> {
        Ok(false)
    }

    /// Whether a commit with changes of this size is expected to end within the time of a [brief](crate::run_briefly) operation.
    fn is_prompt(&self, _change_bytes: usize, _durability: Durability) -> bool {
        false
    }

    /// Makes all commits durable, unless this takes a commit of the file. Returns whether they are durable.
    ///
    /// # Errors
    /// I/O. Some of the commits may be lost at a power loss.
    fn sync_log(&self) -> Result<bool> {
        Ok(true)
    }

    /// Makes all commits durable.
    ///
    /// # Errors
    /// I/O. Some of the commits may be lost at a power loss.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Replaces the file by a copy without free pages. Snapshots of the old file stay readable. No commit runs during the call.
    ///
    /// # Errors
    /// The store has no file. I/O, storage full, in use, cancelled. After an I/O error, the file can be the copy already. After any
    /// other error, the old file is unchanged.
    fn compact(&self) -> Result<CompactionReport> {
        Err(no_file_to_compact())
    }

    /// Makes the store writable again if the outcome of a failed commit is unknown. Does nothing otherwise.
    ///
    /// # Errors
    /// The storage still fails. Damaged.
    fn reopen(&self) -> Result<()> {
        Ok(())
    }

    /// Refuses changes if the disk is known to be full before the changes are written.
    ///
    /// # Errors
    /// Storage full.
    fn check_space(&self, _changes: &Changes, _base: &dyn Snapshot) -> Result<()> {
        Ok(())
    }

    /// Returns how many bytes the store uses outside of the keyspace.
    ///
    /// # Errors
    /// I/O.
    fn usage(&self) -> Result<StorageUsage> {
        Ok(StorageUsage::default())
    }

    /// The permissions that the file had when it was opened. A store in memory has none.
    fn permissions(&self) -> Option<Permissions> {
        None
    }

    /// Whether every commit is refused.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Closes the store. Later use of the store or its snapshots is an error. No commit runs during the call.
    fn close(&self) {}
}

/// The error of a compaction of a store without a file.
pub(crate) fn no_file_to_compact() -> Error {
    Error::not_supported("only a database file has space to give back")
}

/// The bytes of a store on disk. A store in memory has none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StorageUsage {
    /// The length of the file.
    pub(crate) file_bytes: Option<u64>,
    /// The length of all records of the write-ahead log.
    pub(crate) log_bytes: Option<u64>,
}

/// The default of [`Store::large_commit_bytes`].
const LARGE_COMMIT_BYTES: usize = 4 << 20;

/// A commit that takes long. Small commits run meanwhile.
///
/// The store may write the commit twice. The first attempt has no effect then.
pub(crate) struct LargeCommit<'a> {
    /// The changes. They tell after a failure if the commit was written.
    pub(crate) changes: &'a Changes,
    /// Writes more entries than fit into memory, before the changes.
    pub(crate) bulk: Option<BulkCallback<'a>>,
    /// Whether the commit may run on a full disk.
    pub(crate) space: SpaceUse,
    /// Called when everything is written. After an error, the commit has no effect. The small commits before the call belong to the
    /// state that the commit changes. The keys of later small commits must be different.
    pub(crate) validate: Option<&'a dyn Fn() -> Result<()>>,
}

impl<'a> LargeCommit<'a> {
    /// A commit with these changes only.
    pub(crate) fn of(changes: &'a Changes) -> LargeCommit<'a> {
        LargeCommit {
            changes,
            bulk: None,
            space: SpaceUse::OfChanges,
            validate: None,
        }
    }

    /// Writes and validates the commit.
    pub(crate) fn write_to(&self, writer: &mut dyn CommitWriter) -> Result<()> {
        if let Some(bulk) = self.bulk {
            bulk(writer)?;
        }
        for (key, value) in self.changes {
            match value {
                Some(value) => writer.put(key, value)?,
                None => writer.remove(key)?,
            }
        }
        self.validate.map_or(Ok(()), |validate| validate())
    }
}

/// How a commit changes the used space. A commit that frees space may use the reserve for a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceUse {
    /// The changes tell.
    OfChanges,
    Frees,
    /// The commit reads a snapshot, so it cannot run again after the store was reopened.
    Grows,
}

/// A callback that writes more entries than fit into memory.
pub(crate) type BulkCallback<'a> = &'a dyn Fn(&mut dyn CommitWriter) -> Result<()>;

/// One commit of a store.
pub(crate) trait CommitWriter {
    /// Writes a value under a key.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key.
    fn remove(&mut self, key: &[u8]) -> Result<()>;

    /// Whether the key has a value.
    fn contains_key(&self, key: &[u8]) -> Result<bool>;

    /// Removes all keys in a range.
    fn remove_range(&mut self, range: &KeyRange) -> Result<()>;
}

/// Why a commit failed, and the state of the store afterwards.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The commit was rolled back, and the store is writable.
    Undone(Error),
    /// The commit was either written completely or not at all. The store is not writable until it is reopened.
    Unknown(Error),
}

impl CommitError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            CommitError::Undone(error) | CommitError::Unknown(error) => error,
        }
    }
}

/// Whether a snapshot contains all of the changes. Tells after a failed commit if the commit was written.
pub(crate) fn snapshot_contains(snapshot: &dyn Snapshot, changes: &Changes) -> Result<bool> {
    for (key, value) in changes {
        if snapshot.get(key)?.as_deref() != value.as_deref() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the format version of a store; `None` if the store has no version yet.
///
/// # Errors
/// Damaged, I/O.
pub(crate) fn read_format_version(snapshot: &dyn Snapshot) -> Result<Option<u32>> {
    let Some(stored) = snapshot.get(&key::for_format_version())? else {
        return Ok(None);
    };
    match stored.first_chunk() {
        Some(version) => Ok(Some(u32::from_be_bytes(*version))),
        None => Err(Error::damaged("it has no valid format version")),
    }
}

/// One immutable state of a keyspace.
pub(crate) trait Snapshot: Send + Sync {
    /// Returns the value under `key`.
    fn get(&self, key: &[u8]) -> Result<Option<StoredBytes>>;

    /// Iterates over the entries in `range`, in ascending or descending key order. The iterator owns the snapshot.
    fn range(&self, range: KeyRange, direction: Direction) -> Entries;

    /// Returns the same state with a verification of every value that has a checksum. Returns `None` if the values have no checksums.
    fn verifying(&self) -> Option<Arc<dyn Snapshot>> {
        None
    }
}

/// The snapshot of a closed store. Every read is an error.
pub(crate) struct ClosedSnapshot;

impl Snapshot for ClosedSnapshot {
    fn get(&self, _key: &[u8]) -> Result<Option<StoredBytes>> {
        Err(Error::closed())
    }

    fn range(&self, _range: KeyRange, _direction: Direction) -> Entries {
        Box::new(std::iter::once(Err(Error::closed())))
    }
}

/// Entries in key order. The iterator ends after an error.
pub(crate) type Entries = Box<dyn Iterator<Item = Result<(StoredBytes, StoredBytes)>> + Send>;

/// Keys with their new values, or `None` for a removed key. A clone is cheap and immutable, so that a reader can hold a clone
/// while the writer continues.
pub(crate) type Changes = OrdMap<Arc<[u8]>, Option<Arc<[u8]>>>;
