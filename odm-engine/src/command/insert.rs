use bson::RawDocumentBuf;

use crate::document;
use crate::error::{Error, Result};
use crate::overlay::Overlay;

/// What an insertion did.
#[derive(Clone, Debug, Default)]
#[must_use = "an insertion can fail in part"]
pub struct InsertReport {
    /// How many documents were inserted. In order, these are the ones before the one that failed.
    pub inserted: usize,
    /// The documents that were not, by their positions: in order one at most, and none behind it was
    /// tried.
    pub failures: Vec<InsertFailure>,
}

/// A document that could not be inserted.
#[derive(Clone, Debug)]
pub struct InsertFailure {
    /// Its place among the documents, from 0.
    pub position: usize,
    /// Why it could not be inserted.
    pub error: Error,
}

impl InsertReport {
    /// The number of documents, if all were inserted.
    ///
    /// # Errors
    /// The first failure.
    pub fn all(self) -> Result<usize> {
        match self.failures.into_iter().next() {
            None => Ok(self.inserted),
            Some(failure) => Err(failure.error),
        }
    }
}

pub(crate) fn run(
    overlay: &mut Overlay,
    name: &str,
    documents: Vec<RawDocumentBuf>,
    ordered: bool,
) -> Result<InsertReport> {
    let collection = overlay.collection_or_create(name)?;
    let mut report = InsertReport::default();
    for (position, document) in documents.into_iter().enumerate() {
        let inserted =
            document::prepare(document).and_then(|document| overlay.insert(&collection, &document));
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
