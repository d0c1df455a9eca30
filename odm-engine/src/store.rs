//! Where the bytes live: one ordered keyspace, read through snapshots and changed by atomic commits.
//!
//! Everything above this module sees a [`Snapshot`] and a set of [`Changes`]; only the modules below
//! it do I/O. What the keys mean is the concern of [`crate::key`].

mod bytes;
pub(crate) mod memory;
mod paged;
mod range;
pub(crate) mod redb;
mod view;

use std::sync::Arc;

use imbl::OrdMap;

pub(crate) use bytes::Bytes;
pub(crate) use range::{KeyRange, after_prefix};
pub(crate) use view::View;

use crate::direction::Direction;
use crate::error::{Error, Result};

/// A keyspace that outlives the process, or pretends to.
pub(crate) trait Store: Send + Sync {
    /// The state after the last commit. Later commits do not change it, and it blocks none of them.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// Makes what `bulk` writes and then all of `changes` durable, or none of it. There is one caller at a time.
    /// `bulk` may run twice; what it has written before is gone then.
    fn commit(&self, changes: &Changes, bulk: Bulk<'_>) -> Result<(), CommitError>;

    /// Makes a store writable again of which nothing is known since a commit failed. Does nothing otherwise.
    ///
    /// # Errors
    /// The storage still fails. Damaged.
    fn reopen(&self) -> Result<()> {
        Ok(())
    }

    /// Refuses changes that there is no room for, as far as that is known before they are written.
    ///
    /// # Errors
    /// Storage full.
    fn admit(&self, _changes: &Changes, _base: &dyn Snapshot) -> Result<()> {
        Ok(())
    }

    /// Ends the store: what is asked of it or its snapshots later is an error. There is no commit meanwhile.
    fn close(&self) {}
}

/// Writes that are too many to be held in memory.
pub(crate) type Bulk<'a> = &'a dyn Fn(&mut dyn Writer) -> Result<()>;

/// One commit of a store.
pub(crate) trait Writer {
    /// Puts a value under a key.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Whether there is a value under a key.
    fn has(&self, key: &[u8]) -> Result<bool>;

    /// Removes all keys in a range.
    fn remove_range(&mut self, range: &KeyRange) -> Result<()>;
}

/// Why a commit failed, and what is known of the store.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Nothing was written, and the store can be written to.
    Undone(Error),
    /// All of it or nothing was written, and the store cannot be written to until it is opened again.
    Unknown(Error),
}

/// Whether a state has all of the changes.
pub(crate) fn holds(snapshot: &dyn Snapshot, changes: &Changes) -> Result<bool> {
    for (key, value) in changes {
        if snapshot.get(key)?.as_deref() != value.as_deref() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One immutable state of a keyspace.
pub(crate) trait Snapshot: Send + Sync {
    /// The value under `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// The entries in `range`, in ascending or descending order of their keys. The iterator keeps
    /// the state alive by itself.
    fn range(&self, range: KeyRange, direction: Direction) -> Entries;
}

/// The snapshot of a store that was closed: reading is an error.
pub(crate) struct Closed;

impl Snapshot for Closed {
    fn get(&self, _key: &[u8]) -> Result<Option<Bytes>> {
        Err(Error::closed())
    }

    fn range(&self, _range: KeyRange, _direction: Direction) -> Entries {
        Box::new(std::iter::once(Err(Error::closed())))
    }
}

/// Entries in the order of their keys; an error ends them.
pub(crate) type Entries = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send>;

/// Keys with their new values, or `None` where the key is removed. A clone costs nothing and is
/// frozen, so that a reader can hold one while the writer goes on.
pub(crate) type Changes = OrdMap<Arc<[u8]>, Option<Arc<[u8]>>>;
