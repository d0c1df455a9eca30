//! What becomes of a document, in the words of MongoDB's change events.
//!
//! A write says how it changed a document ([`Modified`]) and, where a log is kept, becomes an [`Event`]. These are bytes
//! only: the log of [`crate::commit`] numbers and keeps them, [`crate::watch`] shows them.

mod description;
mod difference;
mod event;
mod token;

use bson::RawDocumentBuf;

pub(crate) use event::{Event, Moment};
pub(crate) use token::Token;

/// A document that takes the place of another, and how it came about.
#[derive(Debug)]
pub(crate) struct Modified {
    pub(crate) document: RawDocumentBuf,
    pub(crate) how: How,
}

/// How a document came to be another one.
#[derive(Debug)]
pub(crate) enum How {
    /// By operators, at these places, in the order of their paths.
    Update(Vec<Place>),
    /// As a whole.
    Replacement,
    /// By a pipeline, wherever the two are different.
    Pipeline,
}

/// A place that an update has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// A dotted path.
    pub(crate) path: String,
    /// Whether elements came to the end of the array there, and nothing else happened to it.
    pub(crate) appended: bool,
}
