use bson::RawDocumentBuf;

use crate::document;
use crate::error::{Error, Result};
use crate::overlay::Overlay;

/// What an insertion did.
#[derive(Clone, Debug, Default)]
#[must_use = "an insertion can fail half-way"]
pub struct InsertReport {
    /// How many documents were inserted: those before the one that failed.
    pub inserted: usize,
    /// Why the next one was not, and with it none after it.
    pub failure: Option<Error>,
}

impl InsertReport {
    /// The number of documents, if all were inserted.
    ///
    /// # Errors
    /// The failure that stopped the insertion.
    pub fn all(self) -> Result<usize> {
        match self.failure {
            None => Ok(self.inserted),
            Some(failure) => Err(failure),
        }
    }
}

pub(crate) fn run(
    overlay: &mut Overlay,
    name: &str,
    documents: Vec<RawDocumentBuf>,
) -> Result<InsertReport> {
    let collection = overlay.collection_or_create(name)?;
    let mut report = InsertReport::default();
    for document in documents {
        let inserted =
            document::prepare(document).and_then(|document| overlay.insert(&collection, &document));
        match inserted {
            Ok(()) => report.inserted += 1,
            Err(failure) => {
                report.failure = Some(failure);
                break;
            }
        }
    }
    Ok(report)
}
