//! Cursors over query results.

use bson::RawDocumentBuf;

use crate::error::Result;
use crate::interrupt::InterruptSet;

/// The results of a query, computed on demand.
///
/// A cursor shows the state of the database at the time of the query, and no later writes. The file cannot reuse the pages of
/// that state while the cursor exists, so a cursor should be short-lived.
///
/// A cursor ends with an error when one of the [interrupts](crate::Interrupt) of its query ends the operation.
pub struct Cursor {
    documents: Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>,
    interrupts: InterruptSet,
}

impl Cursor {
    pub(crate) fn new(
        documents: impl Iterator<Item = Result<RawDocumentBuf>> + Send + 'static,
    ) -> Cursor {
        Cursor {
            documents: Box::new(documents),
            interrupts: InterruptSet::current(),
        }
    }

    /// Returns the next `max_documents` documents, or the remaining documents if there are fewer. Returns `None` at the end.
    ///
    /// # Errors
    /// I/O, damaged file. Documents read in the same call before the error are lost.
    pub fn next_batch(&mut self, max_documents: usize) -> Result<Option<Vec<RawDocumentBuf>>> {
        let batch: Vec<_> = self
            .by_ref()
            .take(max_documents.max(1))
            .collect::<Result<_>>()?;
        Ok((!batch.is_empty()).then_some(batch))
    }
}

impl Iterator for Cursor {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        let documents = &mut self.documents;
        self.interrupts.run(|| documents.next())
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}
