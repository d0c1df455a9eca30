//! `$unionWith`: the documents, followed by the documents of a second collection.
//!
//! ```text
//! { "$unionWith": { "pipeline": [{ "$documents": [{ "_id": 2 }] }] } }
//! in:  { "_id": 1 }
//! out: { "_id": 1 }
//! out: { "_id": 2 }
//! ```

use std::sync::Arc;

use bson::RawBsonRef;

use super::stages::StageCall;
use super::{CollectionSource, DocumentIterator, Pipeline, PipelineStage, StageOperator, lookup};
use crate::error::code;
use crate::{Error, Result, value};

#[derive(Debug)]
struct UnionWith {
    /// `None` if the pipeline begins with its own documents.
    collection: Option<Box<str>>,
    pipeline: Pipeline,
}

pub(super) fn parse_union_with(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let (mut collection, mut stages) = (None, None);
    match call.operand {
        RawBsonRef::String(name) => collection = Some(name),
        RawBsonRef::Document(arguments) => {
            for (name, argument) in value::fields(arguments) {
                match (name, argument) {
                    ("coll", RawBsonRef::String(name)) => collection = Some(name),
                    ("pipeline", RawBsonRef::Array(array)) => {
                        stages = Some(lookup::parse_stages(array)?);
                    }
                    ("coll" | "pipeline", _) => {
                        let message = format!("'{name}' of $unionWith has the wrong type");
                        return Err(Error::with_server_code(code::TYPE_MISMATCH, message));
                    }
                    (other, _) => {
                        let message = format!("$unionWith has no argument '{other}'");
                        return Err(Error::with_server_code(40415, message));
                    }
                }
            }
        }
        _ => {
            let message = "$unionWith takes the name of a collection or a document of arguments";
            return Err(Error::with_server_code(code::FAILED_TO_PARSE, message));
        }
    }
    let context = call.context.nested_context("$unionWith")?;
    let pipeline = Pipeline::parse_in(stages.unwrap_or_default(), &context)?;
    if collection.is_none() && !pipeline.begins_with_documents() {
        let message = "$unionWith needs a collection, or a pipeline that begins with $documents";
        return Err(Error::with_server_code(code::FAILED_TO_PARSE, message));
    }
    Ok(vec![PipelineStage::from_operator(UnionWith {
        collection: collection.map(Box::from),
        pipeline,
    })])
}

impl StageOperator for UnionWith {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        source: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let source = Arc::clone(source);
        let mut union_documents = None;
        let mut pipeline = Some((self.collection, self.pipeline));
        // Read the second collection only after the input documents are exhausted.
        let rest = std::iter::from_fn(move || {
            if let Some((collection, pipeline)) = pipeline.take() {
                let matches = match collection {
                    Some(collection) => source.run_pipeline(&collection, pipeline),
                    None => pipeline.run(Box::new(std::iter::empty()), &source),
                };
                match matches {
                    Ok(matches) => union_documents = Some(matches),
                    Err(error) => return Some(Err(error)),
                }
            }
            union_documents.as_mut()?.next()
        });
        Ok(Box::new(documents.chain(rest)))
    }
}
