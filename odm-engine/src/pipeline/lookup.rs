//! `$lookup`: adds an array of related documents of a collection to each document. Related documents have an equal value at a
//! path, come from a pipeline, or both.
//!
//! ```text
//! { "$lookup": { "pipeline": [{ "$documents": [{ "x": 1 }, { "x": 2 }] }], "as": "all" } }
//! in:  { "_id": 1 }
//! out: { "_id": 1, "all": [{ "x": 1 }, { "x": 2 }] }
//!
//! { "$lookup": { "let": { "a": "$a" }, "pipeline": [
//!   { "$documents": [{ "x": 1 }] }, { "$set": { "y": "$$a" } }], "as": "all" } }
//! in:  { "_id": 1, "a": 5 }
//! out: { "_id": 1, "a": 5, "all": [{ "x": 1, "y": 5 }] }
//! ```

use std::sync::Arc;

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::stages::{PipelineContext, StageCall};
use super::{
    CollectionSource, DocumentIterator, MAX_STAGE_BYTES, Pipeline, PipelineStage, StageOperator,
    nested, too_much_memory,
};
use crate::error::code;
use crate::expression::{Computation, Environment, check_bindable};
use crate::filter::Filter;
use crate::path::Path;
use crate::{Error, Result, value};

#[derive(Debug)]
struct LookupStage {
    /// `None` if the pipeline begins with its own documents.
    collection: Option<Box<str>>,
    equality: Option<LookupEquality>,
    /// The variables for the pipeline.
    variables: Vec<(Box<str>, Computation)>,
    /// The stages of the pipeline. They are parsed again for each document, so that the values of variables are constants and an
    /// index can use them.
    stages: Vec<RawDocumentBuf>,
    context: PipelineContext,
    into: Path,
}

/// Two paths that must have an equal value.
#[derive(Debug)]
struct LookupEquality {
    local: Path,
    foreign: Path,
}

/// The unchecked arguments.
#[derive(Default)]
struct LookupArguments<'a> {
    from: Option<&'a str>,
    local: Option<&'a str>,
    foreign: Option<&'a str>,
    into: Option<&'a str>,
    variables: Option<&'a RawDocument>,
    stages: Option<Vec<&'a RawDocument>>,
}

pub(super) fn parse_lookup(call: &StageCall<'_>) -> Result<Vec<PipelineStage>> {
    let arguments = LookupArguments::from_operand(call.operand)?;
    let rejection = |problem: &str| {
        Err(Error::with_server_code(
            code::FAILED_TO_PARSE,
            format!("$lookup {problem}"),
        ))
    };
    let Some(array_path) = arguments.into else {
        return rejection("needs 'as', the path of the array");
    };
    let equality = match (arguments.local, arguments.foreign) {
        (Some(local), Some(foreign)) => Some(LookupEquality {
            local: nested::field_path(local)?,
            foreign: nested::field_path(foreign)?,
        }),
        (None, None) if arguments.stages.is_some() => None,
        _ => {
            return rejection("needs 'localField' and 'foreignField', or neither and a 'pipeline'");
        }
    };
    if arguments.stages.is_none() && arguments.variables.is_some() {
        return rejection("allows 'let' only with a 'pipeline'");
    }
    let array_path = nested::field_path(array_path)?;
    let mut inner = Environment::clone(&call.context.environment);
    let mut variables = Vec::new();
    for (name, value) in arguments.variables.into_iter().flat_map(value::fields) {
        check_bindable(name)?;
        let value = Computation::parse(value, &call.context.environment)?;
        inner.set_variable(name, None);
        variables.push((name.into(), value));
    }
    let context = PipelineContext {
        environment: Arc::new(inner),
        ..call.context.nested_context("$lookup")?
    };
    let stages = arguments.stages.unwrap_or_default();
    // Report a malformed pipeline before the first document.
    let pipeline = Pipeline::parse_in(stages.iter().copied(), &context)?;
    if arguments.from.is_none() && !pipeline.begins_with_documents() {
        return rejection("needs 'from', or a pipeline that begins with $documents");
    }
    Ok(vec![PipelineStage::from_operator(LookupStage {
        collection: arguments.from.map(Box::from),
        equality,
        variables,
        stages: stages.into_iter().map(ToOwned::to_owned).collect(),
        context,
        into: array_path,
    })])
}

/// Returns the stages of a pipeline inside of a stage.
///
/// # Errors
/// An element is not a document.
pub(super) fn parse_stages(array: &RawArray) -> Result<Vec<&RawDocument>> {
    let rejection = || {
        let message = "each element of 'pipeline' must be a document";
        Error::with_server_code(code::TYPE_MISMATCH, message)
    };
    value::items(array)
        .map(|stage| stage.as_document().ok_or_else(rejection))
        .collect()
}

impl<'a> LookupArguments<'a> {
    fn from_operand(operand: RawBsonRef<'a>) -> Result<LookupArguments<'a>> {
        let rejection = |problem: String| {
            Error::with_server_code(code::FAILED_TO_PARSE, format!("$lookup {problem}"))
        };
        let RawBsonRef::Document(fields) = operand else {
            return Err(rejection("takes a document of arguments".to_owned()));
        };
        let mut arguments = LookupArguments::default();
        for (name, argument) in value::fields(fields) {
            match (name, argument) {
                ("pipeline", RawBsonRef::Array(array)) => {
                    arguments.stages = Some(parse_stages(array)?)
                }
                ("pipeline", _) => {
                    let message = "'pipeline' of $lookup must be an array";
                    return Err(Error::with_server_code(code::TYPE_MISMATCH, message));
                }
                ("let", RawBsonRef::Document(document)) => arguments.variables = Some(document),
                ("let", _) => return Err(rejection("needs a document as 'let'".to_owned())),
                ("from", RawBsonRef::Document(namespace)) => return Err(database_error(namespace)),
                // As on MongoDB, an empty path counts as missing.
                ("localField" | "foreignField", RawBsonRef::String("")) => {}
                ("from" | "localField" | "foreignField" | "as", RawBsonRef::String(text)) => {
                    let slot = match name {
                        "from" => &mut arguments.from,
                        "localField" => &mut arguments.local,
                        "foreignField" => &mut arguments.foreign,
                        _ => &mut arguments.into,
                    };
                    *slot = Some(text);
                }
                ("from" | "localField" | "foreignField" | "as", _) => {
                    return Err(rejection(format!("needs a string as '{name}'")));
                }
                (other, _) => return Err(rejection(format!("has no argument '{other}'"))),
            }
        }
        Ok(arguments)
    }
}

/// Returns the error for a `from` that names a database.
fn database_error(namespace: &RawDocument) -> Error {
    for (name, value) in value::fields(namespace) {
        match (name, value) {
            ("db" | "coll", RawBsonRef::String(_)) => {}
            ("db" | "coll", _) => {
                let message = format!("'from.{name}' of $lookup must be a string");
                return Error::with_server_code(code::TYPE_MISMATCH, message);
            }
            (other, _) => {
                return Error::with_server_code(
                    40415,
                    format!("'from' of $lookup has no field '{other}'"),
                );
            }
        }
    }
    let message = "$lookup cannot read another database; 'from' must be the name of a collection";
    Error::with_server_code(code::FAILED_TO_PARSE, message)
}

impl StageOperator for LookupStage {
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        source: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let source = Arc::clone(source);
        let mut cache = None;
        Ok(Box::new(documents.map(move |document| {
            let document = document?;
            let matches = self.find_documents(&document, &source, &mut cache)?;
            nested::with_value(&document, &self.into, Some(RawBsonRef::Array(&matches)))
        })))
    }
}

impl LookupStage {
    /// Returns the array for a document. A result that does not depend on the document is computed once.
    fn find_documents(
        &self,
        document: &RawDocument,
        source: &Arc<dyn CollectionSource>,
        cache: &mut Option<Arc<RawArrayBuf>>,
    ) -> Result<Arc<RawArrayBuf>> {
        if let Some(matches) = cache {
            return Ok(Arc::clone(matches));
        }
        let mut pipeline = self.pipeline_for(document)?;
        if let Some(equality) = &self.equality {
            let values = equality.lookup_values(document);
            pipeline.prepend_filter(Filter::equal_to_any(
                &equality.foreign,
                &values,
                self.context.environment.order(),
            )?);
        }
        let documents = match &self.collection {
            Some(collection) => source.run_pipeline(collection, pipeline)?,
            None => pipeline.run(Box::new(std::iter::empty()), source)?,
        };
        let mut matches = RawArrayBuf::new();
        for document in documents {
            matches.push(document?);
            if matches.as_bytes().len() > MAX_STAGE_BYTES {
                let remedy = "match fewer documents in its pipeline";
                return Err(too_much_memory("$lookup", remedy));
            }
        }
        let matches = Arc::new(matches);
        if self.equality.is_none() && self.variables.is_empty() {
            *cache = Some(Arc::clone(&matches));
        }
        Ok(matches)
    }

    fn pipeline_for(&self, document: &RawDocument) -> Result<Pipeline> {
        let mut environment = Environment::clone(&self.context.environment);
        for (name, value) in &self.variables {
            environment.set_variable(name, value.evaluate(document)?.into_bson());
        }
        let context = PipelineContext {
            environment: Arc::new(environment),
            ..self.context.clone()
        };
        Pipeline::parse_in(self.stages.iter().map(|stage| &**stage), &context)
    }
}

impl LookupEquality {
    /// Returns the values to look up: the elements of an array, or null for a missing value.
    fn lookup_values(&self, document: &RawDocument) -> Vec<RawBson> {
        let mut values = Vec::new();
        self.local
            .visit_distinct(document, &mut |value| values.push(value.into()));
        if values.is_empty() {
            values.push(RawBson::Null);
        }
        values
    }
}
