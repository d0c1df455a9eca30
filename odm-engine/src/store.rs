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
use crate::error::Result;

/// A keyspace that outlives the process, or pretends to.
pub(crate) trait Store: Send + Sync {
    /// The state after the last commit. Later commits do not change it, and it blocks none of them.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// Makes all of `changes` durable, or none of them. There is one caller at a time.
    ///
    /// After an error it is not known whether the changes will be found when the store is opened
    /// again; until then the store must not be written to.
    fn commit(&self, changes: &Changes) -> Result<()>;
}

/// One immutable state of a keyspace.
pub(crate) trait Snapshot: Send + Sync {
    /// The value under `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// The entries in `range`, in ascending or descending order of their keys. The iterator keeps
    /// the state alive by itself.
    fn range(&self, range: KeyRange, direction: Direction) -> Entries;
}

/// Entries in the order of their keys; an error ends them.
pub(crate) type Entries = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send>;

/// Keys with their new values, or `None` where the key is removed. A clone costs nothing and is
/// frozen, so that a reader can hold one while the writer goes on.
pub(crate) type Changes = OrdMap<Arc<[u8]>, Option<Arc<[u8]>>>;
