//! The records of a copy of a whole database: the state in the target, and the marks in the source.
//!
//! `docs/internals/metadata.md` describes the collection in "Copies of databases".

use bson::{Document, oid::ObjectId};
use serde::{Deserialize, Serialize};

/// The collection of the records. A copy removes its records at the end, and never copies the collection.
pub(crate) const TRANSFERS: &str = "_odm.transfers";

/// The `_id` of the state in the target.
pub(crate) const STATE_ID: &str = "copy";

/// The field of a mark in the source that names the copy. The `_id` of a mark is a new ObjectId.
pub(crate) const COPY: &str = "copy";

/// The field of the state that names the process which runs the copy.
pub(crate) const OWNER: &str = "owner";

/// The state of a copy, from which a new process continues.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CopyState {
    /// [`STATE_ID`].
    #[serde(rename = "_id")]
    pub(crate) id: String,
    /// The `_id` of the document that marks the source.
    pub(crate) copy: ObjectId,
    /// The process that runs the copy.
    pub(crate) owner: ObjectId,
    /// The current pass over the documents.
    pub(crate) pass: Pass,
    /// The last examined document.
    pub(crate) position: Option<Position>,
    /// The resume token of the change stream of the source. `None` for a quiescent source.
    pub(crate) token: Option<Document>,
}

impl CopyState {
    /// Returns the state at the start of a copy.
    pub(crate) fn new() -> Self {
        Self {
            id: STATE_ID.into(),
            copy: ObjectId::new(),
            owner: ObjectId::new(),
            pass: Pass::Copy,
            position: None,
            token: None,
        }
    }
}

/// A document up to which a pass is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(crate) collection: String,
    /// The document, with its `_id` only. An `_id` may be null, so the `_id` alone would not tell null from nothing.
    pub(crate) document: Document,
}

/// A pass of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pass {
    /// Copies the documents.
    Copy,
    /// Compares the documents.
    Verify,
    /// All documents are in the target. Indexes may be missing.
    Finish,
}
