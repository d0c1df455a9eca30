//! Updates by a pipeline: stages that transform one document at a time.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::Result;
use crate::expression::Environment;
use crate::pipeline::{self, TransformSequence};

/// The stages, in order.
#[derive(Debug)]
pub(super) struct UpdatePipeline(TransformSequence);

impl UpdatePipeline {
    /// Parses the stages.
    ///
    /// # Errors
    /// A stage is malformed, or does not transform single documents.
    pub(super) fn parse(
        stages: &[RawDocumentBuf],
        environment: &Arc<Environment>,
    ) -> Result<UpdatePipeline> {
        let stages = stages.iter().map(|stage| &**stage);
        // MongoDB folds the constant parts of queries, but not of updates.
        let environment = Arc::new(environment.without_folding());
        pipeline::parse_transforms(stages, &environment).map(UpdatePipeline)
    }

    /// Applies the stages to a document.
    ///
    /// # Errors
    /// An expression fails.
    pub(super) fn apply_to(&self, document: &RawDocument) -> Result<RawDocumentBuf> {
        self.0.apply_to(document)
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn constants_are_evaluated_with_each_document() {
        let stages = [rawdoc! { "$set": { "a": { "$abs": "x" } } }];
        let transforms = UpdatePipeline::parse(&stages, &Arc::default()).unwrap();
        let error = transforms.apply_to(&rawdoc! {}).unwrap_err();
        assert_eq!(error.code(), Some(28765));
        // The null is evaluated first here. A query would have combined the constants, which fails.
        let stages = [rawdoc! { "$set": { "a": { "$add": ["$a", "x", 1] } } }];
        let transforms = UpdatePipeline::parse(&stages, &Arc::default()).unwrap();
        let document = transforms.apply_to(&rawdoc! { "a": null }).unwrap();
        assert_eq!(document, rawdoc! { "a": null });
    }
}
