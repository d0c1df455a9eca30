//! Several writes in as few round trips as the backend has for them.

use bson::RawDocumentBuf;

use super::{Collection, Delete, Update};
use crate::Error;

/// Carries out several writes, to one collection or to several.
#[derive(Debug, Clone, PartialEq)]
pub struct BulkWrite {
    /// The writes.
    pub writes: Vec<BulkItem>,
    /// Whether to carry them out in their order and to stop at the first that fails, rather than in any order and all
    /// that can be.
    pub ordered: bool,
}

/// One of the writes of a [`BulkWrite`].
#[derive(Debug, Clone, PartialEq)]
pub struct BulkItem {
    /// What to do.
    pub write: Write,
    /// What it means if no document matches.
    pub unmatched: Unmatched,
}

/// A write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Inserts a document.
    Insert {
        /// Where to.
        collection: Collection,
        /// With its `_id` as the first field.
        document: RawDocumentBuf,
    },
    /// Changes documents. One that may insert is refused.
    Update(Update),
    /// Deletes documents.
    Delete(Delete),
}

/// What it means for the result of a write that no document matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmatched {
    /// Nothing: the result is [`Written::Applied`] all the same.
    Fine,
    /// The result is [`Written::NotApplied`].
    Told,
    /// The same, and writes in order stop behind it, as behind a failure.
    Stops,
}

/// What the writes of a [`BulkWrite`] did.
#[derive(Debug, Clone, Default)]
pub struct BulkWritten {
    /// What became of each, in the order in which they were given.
    pub results: Vec<Written>,
    /// How many documents were inserted.
    pub inserted: u64,
    /// How many documents matched the filters of updates.
    pub matched: u64,
    /// How many of them are different now.
    pub modified: u64,
    /// How many documents were deleted.
    pub deleted: u64,
}

/// What became of one of several writes.
#[derive(Debug, Clone)]
pub enum Written {
    /// It was carried out.
    Applied,
    /// No document matched, and nothing was written.
    NotApplied,
    /// It failed.
    Failed(Error),
    /// A write before it ended all.
    NotAttempted,
}

impl BulkWritten {
    /// None of this many writes has been attempted yet.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(in crate::backend) fn none_of(writes: usize) -> Self {
        Self {
            results: vec![Written::NotAttempted; writes],
            ..Self::default()
        }
    }

    /// Notes what became of one.
    #[cfg(any(feature = "engine", feature = "mongodb"))]
    pub(in crate::backend) fn note(&mut self, position: usize, result: Written) {
        if let Some(noted) = self.results.get_mut(position) {
            *noted = result;
        }
    }
}

impl Write {
    /// The collection that it is about.
    #[must_use]
    pub fn collection(&self) -> &Collection {
        match self {
            Self::Insert { collection, .. } => collection,
            Self::Update(update) => &update.collection,
            Self::Delete(delete) => &delete.collection,
        }
    }
}

impl Written {
    /// Whether it failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// Why an update that may insert is no part of a bulk.
#[cfg(any(feature = "engine", feature = "mongodb"))]
pub(in crate::backend) fn refuse_upsert(write: &Write) -> crate::Result<()> {
    match write {
        Write::Update(update) if update.upsert => Err(Error::new(
            crate::ErrorKind::Unsupported,
            "an update that may insert is no part of a bulk: send it by itself",
        )),
        _ => Ok(()),
    }
}
