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

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn what_is_constant_fails_where_there_is_a_document() {
        let stages = [rawdoc! { "$set": { "a": { "$abs": "x" } } }];
        let transforms = Transforms::parse(&stages, &Arc::default()).unwrap();
        let error = transforms.apply(&rawdoc! {}).unwrap_err();
        assert_eq!(error.code(), Some(28765));
        // A null comes first here, while a query would have put the constants together.
        let stages = [rawdoc! { "$set": { "a": { "$add": ["$a", "x", 1] } } }];
        let transforms = Transforms::parse(&stages, &Arc::default()).unwrap();
        let document = transforms.apply(&rawdoc! { "a": null }).unwrap();
        assert_eq!(document, rawdoc! { "a": null });
    }
}
