//! Several writes in as few round trips as the backend allows.

use bson::RawDocumentBuf;

use super::{Collection, DeleteOperation, OperationOrigin, UpdateOperation};
use crate::Error;

/// Executes several writes, to one collection or to several.
#[derive(Debug, Clone, PartialEq)]
pub struct BulkWrite {
    /// The writes.
    pub writes: Vec<BulkItem>,
    /// Whether to execute the writes in their order and to stop at the first failure. Otherwise the backend executes as many
    /// writes as possible, in any order.
    pub ordered: bool,
    /// The part of the typed action that sends the write.
    pub origin: OperationOrigin,
}

/// One write of a [`BulkWrite`].
#[derive(Debug, Clone, PartialEq)]
pub struct BulkItem {
    /// The write.
    pub write: BulkOperation,
    /// The effect on the result if no document matches.
    pub unmatched: Unmatched,
}

/// A write of a [`BulkWrite`].
#[derive(Debug, Clone, PartialEq)]
pub enum BulkOperation {
    /// Inserts a document.
    Insert {
        /// The collection to insert into.
        collection: Collection,
        /// The document, with its `_id` as the first field.
        document: RawDocumentBuf,
    },
    /// Changes documents. An upsert is not allowed.
    Update(UpdateOperation),
    /// Deletes documents.
    Delete(DeleteOperation),
}

/// The effect on the result of a write if no document matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmatched {
    /// The result is [`BulkItemOutcome::Applied`], as for a write that matched a document.
    Ignore,
    /// The result is [`BulkItemOutcome::NotApplied`].
    Report,
    /// The result is [`BulkItemOutcome::NotApplied`], and an ordered bulk write stops, as after a failure.
    Abort,
    /// As `Abort`, and the backend may end the transaction: the caller rolls the transaction back.
    Rollback,
}

impl Unmatched {
    /// Returns whether an ordered bulk write stops.
    #[must_use]
    pub fn stops(self) -> bool {
        match self {
            Self::Ignore | Self::Report => false,
            Self::Abort | Self::Rollback => true,
        }
    }
}

/// The result of a [`BulkWrite`].
#[derive(Debug, Clone, Default)]
pub struct BulkWriteResult {
    /// The outcome of each write, in the order of the request.
    pub results: Vec<BulkItemOutcome>,
    /// The number of inserted documents.
    pub inserted: u64,
    /// The number of documents that matched the filters of updates.
    pub matched: u64,
    /// The number of matched documents that changed.
    pub modified: u64,
    /// The number of deleted documents.
    pub deleted: u64,
}

/// The outcome of one write in a bulk write.
#[derive(Debug, Clone)]
pub enum BulkItemOutcome {
    /// The write was executed.
    Applied,
    /// No document matched, and nothing was written.
    NotApplied,
    /// The write failed.
    Failed(Error),
    /// The write did not run, because an earlier write ended the operation.
    NotAttempted,
}

impl BulkWriteResult {
    /// The result before the first of this many writes.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(in crate::backend) fn not_attempted(writes: usize) -> Self {
        Self {
            results: vec![BulkItemOutcome::NotAttempted; writes],
            ..Self::default()
        }
    }

    /// Records the outcome of one write.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(in crate::backend) fn record_outcome(&mut self, position: usize, result: BulkItemOutcome) {
        if let Some(outcome) = self.results.get_mut(position) {
            *outcome = result;
        }
    }
}

impl BulkOperation {
    /// Returns the collection of the write.
    #[must_use]
    pub fn collection(&self) -> &Collection {
        match self {
            Self::Insert { collection, .. } => collection,
            Self::Update(update) => &update.collection,
            Self::Delete(delete) => &delete.collection,
        }
    }
}

impl BulkItemOutcome {
    /// Returns whether the write failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// Checks that a write is no upsert. A bulk write has no place for the `_id` that an upsert returns.
#[cfg(any(feature = "engine", feature = "mongodb"))]
pub(in crate::backend) fn ensure_no_upsert(write: &BulkOperation) -> crate::Result<()> {
    match write {
        BulkOperation::Update(update) if update.upsert => Err(Error::new(
            crate::ErrorKind::Unsupported,
            "a bulk write cannot contain an upsert: send the upsert as a single update",
        )),
        _ => Ok(()),
    }
}
