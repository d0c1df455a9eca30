//! `$redact`: restricts the content of each document by an expression on the document and its subdocuments.
//!
//! ```text
//! { "$redact": { "$cond": ["$secret", "$$PRUNE", "$$DESCEND"] } }
//! in:  { "_id": 1, "a": { "secret": true }, "b": [{ "c": 1 }, { "secret": true }] }
//! out: { "_id": 1, "b": [{ "c": 1 }] }
//! ```

use std::sync::Arc;

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::stages::StageCall;
use super::{CollectionSource, DocumentIterator, PipelineStage, StageOperator};
use crate::expression::{Computation, Environment};
use crate::{Error, Result, value};

#[derive(Debug)]
struct RedactStage {
    decision: Computation,
}

/// The variables for the possible decisions. Each variable has a distinct value.
const DECISIONS: &[&str] = &["DESCEND", "KEEP", "PRUNE"];

pub(super) fn parse_redact(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let mut environment = Environment::clone(&call.context.environment);
    for name in DECISIONS {
        let value = RawBson::String(name.to_lowercase());
        environment.set_variable(name, Some(value));
    }
    let environment = Arc::new(environment);
    let decision = Computation::parse_current(call.operand, &environment)?;
    Ok(vec![PipelineStage::from_operator(RedactStage { decision })])
}

impl StageOperator for RedactStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        _: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        Ok(Box::new(documents.filter_map(move |document| {
            let redacted = document.and_then(|document| self.redact_document(&document, &document));
            redacted.transpose()
        })))
    }
}

impl RedactStage {
    fn redact_document(
        &self,
        root: &RawDocument,
        document: &RawDocument,
    ) -> Result<Option<RawDocumentBuf>> {
        let decision = self.decision.evaluate_current(root, document)?;
        match decision.as_bson() {
            Some(RawBsonRef::String("prune")) => Ok(None),
            Some(RawBsonRef::String("keep")) => Ok(Some(document.to_owned())),
            Some(RawBsonRef::String("descend")) => {
                let mut output = RawDocumentBuf::new();
                for element in document.iter_elements() {
                    let element = element?;
                    if let Some(value) = self.redact_value(root, element.value()?)? {
                        output.append(element.key(), value);
                    }
                }
                Ok(Some(output))
            }
            _ => {
                let message = "the expression of $redact must return $$KEEP, $$PRUNE or $$DESCEND";
                Err(Error::with_server_code(17053, message))
            }
        }
    }

    fn redact_value(&self, root: &RawDocument, value: RawBsonRef<'_>) -> Result<Option<RawBson>> {
        Ok(match value {
            RawBsonRef::Document(inner) => self.redact_document(root, inner)?.map(RawBson::from),
            RawBsonRef::Array(array) => Some(self.redact_array(root, array)?.into()),
            value => Some(value.into()),
        })
    }

    fn redact_array(&self, root: &RawDocument, array: &RawArray) -> Result<RawArrayBuf> {
        let mut output = RawArrayBuf::new();
        for item in value::items(array) {
            if let Some(item) = self.redact_value(root, item)? {
                output.push(item);
            }
        }
        Ok(output)
    }
}
