//! Changes of documents, in the format of MongoDB's change events.
//!
//! A write reports how it changed a document ([`ModifiedDocument`]). If the database keeps a change log, the change becomes a
//! [`ChangeEvent`]. This module only produces bytes: [`crate::commit`] numbers and stores events, and [`crate::watch`] returns
//! them to callers.

mod description;
mod difference;
mod event;
mod token;

use bson::RawDocumentBuf;

pub(crate) use event::{ChangeEvent, EventTime};
pub(crate) use token::ResumeToken;

/// The new version of a document, and the kind of modification that produced it.
#[derive(Debug)]
pub(crate) struct ModifiedDocument {
    pub(crate) document: RawDocumentBuf,
    pub(crate) kind: ModificationKind,
}

/// The kind of modification that produced a new version of a document.
#[derive(Debug)]
pub(crate) enum ModificationKind {
    /// Update operators, which changed these paths. Sorted by path.
    Update(Vec<UpdatedPath>),
    /// A replacement of the whole document.
    Replacement,
    /// An update pipeline. The changed paths follow from a comparison.
    Pipeline,
}

/// A path that an update changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UpdatedPath {
    /// A dotted path.
    pub(crate) path: String,
    /// Whether the only change was to append elements to the array at this path.
    pub(crate) appended: bool,
}
