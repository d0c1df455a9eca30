//! `$redact`: what of each document may be seen, as an expression says for it and for the documents in it.
//!
//! ```text
//! { "$redact": { "$cond": ["$secret", "$$PRUNE", "$$DESCEND"] } }
//! in:  { "_id": 1, "a": { "secret": true }, "b": [{ "c": 1 }, { "secret": true }] }
//! out: { "_id": 1, "b": [{ "c": 1 }] }
//! ```

use std::sync::Arc;

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::stages::Call;
use super::{Documents, Operator, Source, Stage};
use crate::expression::{Computation, Environment};
use crate::{Error, Result, value};

#[derive(Debug)]
struct Redact {
    decision: Computation,
}

/// The variables that stand for what can be decided, with values of their own.
const DECISIONS: &[&str] = &["DESCEND", "KEEP", "PRUNE"];

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let mut environment = Environment::clone(&call.context.environment);
    for name in DECISIONS {
        let value = RawBson::String(name.to_lowercase());
        environment.set(name, Some(value));
    }
    let environment = Arc::new(environment);
    let decision = Computation::parse_current(call.operand, &environment)?;
    Ok(vec![Stage::operator(Redact { decision })])
}

impl Operator for Redact {
    fn run(self: Box<Self>, documents: Documents, _: &Arc<dyn Source>) -> Result<Documents> {
        Ok(Box::new(documents.filter_map(move |document| {
            let redacted = document.and_then(|document| self.document(&document, &document));
            redacted.transpose()
        })))
    }
}

impl Redact {
    fn document(
        &self,
        root: &RawDocument,
        document: &RawDocument,
    ) -> Result<Option<RawDocumentBuf>> {
        let decision = self.decision.of_current(root, document)?;
        match decision.as_bson() {
            Some(RawBsonRef::String("prune")) => Ok(None),
            Some(RawBsonRef::String("keep")) => Ok(Some(document.to_owned())),
            Some(RawBsonRef::String("descend")) => {
                let mut output = RawDocumentBuf::new();
                for element in document.iter_elements() {
                    let element = element?;
                    if let Some(value) = self.value(root, element.value()?)? {
                        output.append(element.key(), value);
                    }
                }
                Ok(Some(output))
            }
            _ => {
                let message = "the expression of $redact must give $$KEEP, $$PRUNE or $$DESCEND";
                Err(Error::server(17053, message))
            }
        }
    }

    fn value(&self, root: &RawDocument, value: RawBsonRef<'_>) -> Result<Option<RawBson>> {
        Ok(match value {
            RawBsonRef::Document(inner) => self.document(root, inner)?.map(RawBson::from),
            RawBsonRef::Array(array) => Some(self.array(root, array)?.into()),
            value => Some(value.into()),
        })
    }

    fn array(&self, root: &RawDocument, array: &RawArray) -> Result<RawArrayBuf> {
        let mut output = RawArrayBuf::new();
        for item in value::items(array) {
            if let Some(item) = self.value(root, item)? {
                output.push(item);
            }
        }
        Ok(output)
    }
}
