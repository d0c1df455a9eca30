//! The results of a query, one after the other.

use bson::RawDocumentBuf;

use crate::error::Result;
use crate::interrupt::Interrupts;

/// The results of a query, read as they are asked for.
///
/// A cursor holds the state of the database that it was opened on: writes that come later do not
/// show. It keeps that state's pages from being reused, so that it should not be kept for long.
///
/// It ends with an error when one of the [interrupts](crate::Interrupt) that it was opened under says so.
pub struct Cursor {
    documents: Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>,
    interrupts: Interrupts,
}

impl Cursor {
    pub(crate) fn new(
        documents: impl Iterator<Item = Result<RawDocumentBuf>> + Send + 'static,
    ) -> Cursor {
        Cursor {
            documents: Box::new(documents),
            interrupts: Interrupts::current(),
        }
    }

    /// The next documents, `max_documents` of them unless fewer are left, or `None` at the end.
    ///
    /// # Errors
    /// I/O, damaged file. What was read before the error in this call is lost.
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
