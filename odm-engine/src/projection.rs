//! Projections: what of a document is returned.

use bson::{RawDocument, RawDocumentBuf};

use crate::filter::Filter;
use crate::{Error, Result};

/// A parsed projection.
#[derive(Debug)]
pub(crate) struct Projection {}

impl Projection {
    /// Reads a projection. The empty one keeps everything.
    ///
    /// # Errors
    /// Paths that collide, inclusion mixed with exclusion, malformed operators, with MongoDB's
    /// codes; computed fields are not supported.
    pub(crate) fn parse(projection: &RawDocument) -> Result<Projection> {
        let _ = projection;
        Err(Error::not_supported("projections are not supported yet"))
    }

    /// What is left of a document that `filter` has found.
    ///
    /// # Errors
    /// Positional `$` where the filter matched no array element.
    pub(crate) fn apply(&self, document: &RawDocument, filter: &Filter) -> Result<RawDocumentBuf> {
        let _ = (document, filter);
        Err(Error::not_supported("projections are not supported yet"))
    }
}
