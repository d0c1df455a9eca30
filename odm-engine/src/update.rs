//! Updates: what becomes of a document.

use bson::{RawDocument, RawDocumentBuf};

use crate::filter::Filter;
use crate::{Error, Result};

/// A parsed update: operators such as `$set`, or a replacement.
#[derive(Debug)]
pub(crate) struct Update {}

impl Update {
    /// Reads an update and the filters that its `$[name]` refer to.
    ///
    /// # Errors
    /// Unknown operators, operands of the wrong kind, paths that conflict, array filters that
    /// are missing or unused, with MongoDB's codes.
    pub(crate) fn parse(update: &RawDocument, array_filters: &[RawDocumentBuf]) -> Result<Update> {
        let _ = (update, array_filters);
        Err(Error::not_supported("updates are not supported yet"))
    }

    /// Whether this replaces the document, which no update of several documents may do.
    pub(crate) fn is_replacement(&self) -> bool {
        false
    }

    /// Changes a document that `filter` has found. `None` if nothing changes.
    ///
    /// # Errors
    /// The update does not fit the document: paths that lead nowhere, values of the wrong type,
    /// or a change of `_id`.
    pub(crate) fn apply(
        &self,
        document: &RawDocument,
        filter: &Filter,
    ) -> Result<Option<RawDocumentBuf>> {
        let _ = (document, filter);
        Err(Error::not_supported("updates are not supported yet"))
    }

    /// The document to insert where `filter` has found none: the filter's equalities, changed by
    /// the update, with an `_id` at the front, made up if neither says one.
    ///
    /// # Errors
    /// As [`Update::apply`], and equalities that contradict each other.
    pub(crate) fn upsert(&self, filter: &Filter) -> Result<RawDocumentBuf> {
        let _ = filter;
        Err(Error::not_supported("updates are not supported yet"))
    }
}
