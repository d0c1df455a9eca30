use bson::RawDocumentBuf;

use crate::document;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::overlay::WriteOverlay;

/// The report of an insertion.
#[derive(Clone, Debug, Default)]
#[must_use = "an insertion can fail in part"]
pub struct InsertReport {
    /// The number of inserted documents. In an ordered insertion, these are the documents before the failure.
    pub inserted: usize,
    /// The documents that were not inserted, sorted by position. An ordered insertion stops at its first failure.
    pub failures: Vec<InsertFailure>,
}

/// A document that could not be inserted.
#[derive(Clone, Debug)]
pub struct InsertFailure {
    /// The position of the document in the request, from 0.
    pub position: usize,
    /// The reason for the failure.
    pub error: Error,
}

impl InsertReport {
    /// Returns the number of documents if all were inserted.
    ///
    /// # Errors
    /// The first failure.
    pub fn into_result(self) -> Result<usize> {
        match self.failures.into_iter().next() {
            None => Ok(self.inserted),
            Some(failure) => Err(failure.error),
        }
    }
}

pub(crate) fn run_insert(
    overlay: &mut WriteOverlay,
    name: &str,
    documents: &[RawDocumentBuf],
    ordered: bool,
) -> Result<InsertReport> {
    let collection = overlay.collection_or_create(name)?;
    let mut report = InsertReport::default();
    for (position, document) in documents.iter().enumerate() {
        interrupt::check()?;
        let inserted = document::prepare_for_storage(document)
            .and_then(|prepared| overlay.insert(&collection, &prepared));
        match inserted {
            Ok(()) => report.inserted += 1,
            Err(error) if error.ends_operation() => return Err(error),
            Err(error) => {
                report.failures.push(InsertFailure { position, error });
                if ordered {
                    break;
                }
            }
        }
    }
    Ok(report)
}
