//! `$unionWith`: the documents, then those of another collection.
//!
//! ```text
//! { "$unionWith": { "pipeline": [{ "$documents": [{ "_id": 2 }] }] } }
//! in:  { "_id": 1 }
//! out: { "_id": 1 }
//! out: { "_id": 2 }
//! ```

use std::sync::Arc;

use bson::RawBsonRef;

use super::stages::Call;
use super::{Documents, Operator, Pipeline, Source, Stage, lookup};
use crate::error::code;
use crate::{Error, Result, value};

#[derive(Debug)]
struct UnionWith {
    /// `None` for documents that the pipeline itself begins with.
    collection: Option<Box<str>>,
    pipeline: Pipeline,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let (mut collection, mut stages) = (None, None);
    match call.operand {
        RawBsonRef::String(name) => collection = Some(name),
        RawBsonRef::Document(arguments) => {
            for (name, argument) in value::fields(arguments) {
                match (name, argument) {
                    ("coll", RawBsonRef::String(name)) => collection = Some(name),
                    ("pipeline", RawBsonRef::Array(array)) => {
                        stages = Some(lookup::stages(array)?);
                    }
                    ("coll" | "pipeline", _) => {
                        let message = format!("'{name}' of $unionWith is of another type");
                        return Err(Error::server(code::TYPE_MISMATCH, message));
                    }
                    (other, _) => {
                        let message = format!("$unionWith has no argument '{other}'");
                        return Err(Error::server(40415, message));
                    }
                }
            }
        }
        _ => {
            let message = "$unionWith takes the name of a collection or a document of arguments";
            return Err(Error::server(code::FAILED_TO_PARSE, message));
        }
    }
    let context = call.context.nested()?;
    let pipeline = Pipeline::parse_in(stages.unwrap_or_default(), &context)?;
    if collection.is_none() && !pipeline.begins_with_documents() {
        let message = "$unionWith needs a collection, or a pipeline that begins with $documents";
        return Err(Error::server(code::FAILED_TO_PARSE, message));
    }
    Ok(vec![Stage::operator(UnionWith {
        collection: collection.map(Box::from),
        pipeline,
    })])
}

impl Operator for UnionWith {
    fn run(self: Box<Self>, documents: Documents, source: &Arc<dyn Source>) -> Result<Documents> {
        let source = Arc::clone(source);
        let mut others = None;
        let mut pipeline = Some((self.collection, self.pipeline));
        // The others are looked for once the own ones have been taken.
        let others = std::iter::from_fn(move || {
            if let Some((collection, pipeline)) = pipeline.take() {
                let found = match collection {
                    Some(collection) => source.run(&collection, pipeline),
                    None => pipeline.run(Box::new(std::iter::empty()), &source),
                };
                match found {
                    Ok(found) => others = Some(found),
                    Err(error) => return Some(Err(error)),
                }
            }
            others.as_mut()?.next()
        });
        Ok(Box::new(documents.chain(others)))
    }
}
