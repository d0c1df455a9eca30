//! Updates by a pipeline: stages that make another document of each.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::Result;
use crate::expression::Environment;
use crate::pipeline::{self, Transform};

/// The stages, in order.
#[derive(Debug)]
pub(super) struct Transforms(Vec<Box<dyn Transform>>);

impl Transforms {
    /// Reads stages.
    ///
    /// # Errors
    /// Malformed ones, and those that do not look at one document at a time.
    pub(super) fn parse(
        stages: &[RawDocumentBuf],
        environment: &Arc<Environment>,
    ) -> Result<Transforms> {
        let stages = stages.iter().map(|stage| &**stage);
        // As on MongoDB, which computes the constant parts of queries beforehand, and not those of updates.
        let environment = Arc::new(environment.as_written());
        pipeline::transforms(stages, &environment).map(Transforms)
    }

    /// What becomes of a document.
    ///
    /// # Errors
    /// What expressions fail with.
    pub(super) fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.0
            .iter()
            .try_fold(document.to_owned(), |document, transform| {
                transform.apply(&document)
            })
    }
}
