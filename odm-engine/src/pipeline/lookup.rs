//! `$lookup`: to each document the array of those of another collection that belong to it: those with an
//! equal value at a path, or what a pipeline gives, or both.
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

use super::stages::{Call, Context};
use super::{Documents, MEMORY_LIMIT, Operator, Pipeline, Source, Stage, nested, too_much_memory};
use crate::error::code;
use crate::expression::{Computation, Environment, check_bindable};
use crate::filter::Filter;
use crate::path::Path;
use crate::{Error, Result, value};

#[derive(Debug)]
struct Lookup {
    /// `None` for documents that the pipeline itself begins with.
    collection: Option<Box<str>>,
    equality: Option<Equality>,
    /// The variables that the pipeline can read.
    variables: Vec<(Box<str>, Computation)>,
    /// The pipeline, which is parsed for the variables of each document: their values then are constants, of which
    /// an index can be asked.
    stages: Vec<RawDocumentBuf>,
    context: Context,
    into: Path,
}

/// Two paths that have an equal value.
#[derive(Debug)]
struct Equality {
    local: Path,
    foreign: Path,
}

/// The arguments, not yet understood.
#[derive(Default)]
struct Arguments<'a> {
    from: Option<&'a str>,
    local: Option<&'a str>,
    foreign: Option<&'a str>,
    into: Option<&'a str>,
    variables: Option<&'a RawDocument>,
    stages: Option<Vec<&'a RawDocument>>,
}

pub(super) fn parse(call: &Call<'_>) -> Result<Vec<Stage>> {
    let arguments = Arguments::read(call.operand)?;
    let refused = |what: &str| {
        Err(Error::server(
            code::FAILED_TO_PARSE,
            format!("$lookup {what}"),
        ))
    };
    let Some(into) = arguments.into else {
        return refused("needs 'as', the path of the array");
    };
    let equality = match (arguments.local, arguments.foreign) {
        (Some(local), Some(foreign)) => Some(Equality {
            local: nested::field_path(local)?,
            foreign: nested::field_path(foreign)?,
        }),
        (None, None) if arguments.stages.is_some() => None,
        _ => return refused("needs 'localField' and 'foreignField', or neither and a 'pipeline'"),
    };
    if arguments.stages.is_none() && arguments.variables.is_some() {
        return refused("has 'let' for a 'pipeline' only");
    }
    let into = nested::field_path(into)?;
    let mut inner = Environment::clone(&call.context.environment);
    let mut variables = Vec::new();
    for (name, value) in arguments.variables.into_iter().flat_map(value::fields) {
        check_bindable(name)?;
        let value = Computation::parse(value, &call.context.environment)?;
        inner.set(name, None);
        variables.push((name.into(), value));
    }
    let context = Context {
        environment: Arc::new(inner),
        ..call.context.nested()?
    };
    let stages = arguments.stages.unwrap_or_default();
    // That it can be parsed is known before the first document comes.
    let pipeline = Pipeline::parse_in(stages.iter().copied(), &context)?;
    if arguments.from.is_none() && !pipeline.begins_with_documents() {
        return refused("needs 'from', or a pipeline that begins with $documents");
    }
    Ok(vec![Stage::operator(Lookup {
        collection: arguments.from.map(Box::from),
        equality,
        variables,
        stages: stages.into_iter().map(ToOwned::to_owned).collect(),
        context,
        into,
    })])
}

/// The stages of a pipeline within a stage.
///
/// # Errors
/// Something else than documents.
pub(super) fn stages(array: &RawArray) -> Result<Vec<&RawDocument>> {
    let refused = || {
        let message = "each element of 'pipeline' must be a document";
        Error::server(code::TYPE_MISMATCH, message)
    };
    value::items(array)
        .map(|stage| stage.as_document().ok_or_else(refused))
        .collect()
}

impl<'a> Arguments<'a> {
    fn read(operand: RawBsonRef<'a>) -> Result<Arguments<'a>> {
        let refused =
            |what: String| Error::server(code::FAILED_TO_PARSE, format!("$lookup {what}"));
        let RawBsonRef::Document(fields) = operand else {
            return Err(refused("takes a document of arguments".to_owned()));
        };
        let mut arguments = Arguments::default();
        for (name, argument) in value::fields(fields) {
            match (name, argument) {
                ("pipeline", RawBsonRef::Array(array)) => arguments.stages = Some(stages(array)?),
                ("pipeline", _) => {
                    let message = "'pipeline' of $lookup must be an array";
                    return Err(Error::server(code::TYPE_MISMATCH, message));
                }
                ("let", RawBsonRef::Document(document)) => arguments.variables = Some(document),
                ("let", _) => return Err(refused("has a 'let' that is no document".to_owned())),
                ("from", RawBsonRef::Document(place)) => return Err(refuse_database(place)),
                // As on MongoDB, an empty path is none.
                ("localField" | "foreignField", RawBsonRef::String("")) => {}
                ("from" | "localField" | "foreignField" | "as", RawBsonRef::String(text)) => {
                    let place = match name {
                        "from" => &mut arguments.from,
                        "localField" => &mut arguments.local,
                        "foreignField" => &mut arguments.foreign,
                        _ => &mut arguments.into,
                    };
                    *place = Some(text);
                }
                ("from" | "localField" | "foreignField" | "as", _) => {
                    return Err(refused(format!("has a '{name}' that is no string")));
                }
                (other, _) => return Err(refused(format!("has no argument '{other}'"))),
            }
        }
        Ok(arguments)
    }
}

/// Why `from` cannot name another database.
fn refuse_database(place: &RawDocument) -> Error {
    for (name, value) in value::fields(place) {
        match (name, value) {
            ("db" | "coll", RawBsonRef::String(_)) => {}
            ("db" | "coll", _) => {
                let message = format!("'from.{name}' of $lookup must be a string");
                return Error::server(code::TYPE_MISMATCH, message);
            }
            (other, _) => {
                return Error::server(40415, format!("'from' of $lookup has no field '{other}'"));
            }
        }
    }
    let message = "$lookup cannot read another database: 'from' is the name of a collection";
    Error::server(code::FAILED_TO_PARSE, message)
}

impl Operator for Lookup {
    fn run(self: Box<Self>, documents: Documents, source: &Arc<dyn Source>) -> Result<Documents> {
        let source = Arc::clone(source);
        let mut remembered = None;
        Ok(Box::new(documents.map(move |document| {
            let document = document?;
            let found = self.found(&document, &source, &mut remembered)?;
            nested::with(&document, &self.into, Some(RawBsonRef::Array(&found)))
        })))
    }
}

impl Lookup {
    /// The array for a document. What does not depend on the document is looked for once.
    fn found(
        &self,
        document: &RawDocument,
        source: &Arc<dyn Source>,
        remembered: &mut Option<Arc<RawArrayBuf>>,
    ) -> Result<Arc<RawArrayBuf>> {
        if let Some(found) = remembered {
            return Ok(Arc::clone(found));
        }
        let mut pipeline = self.pipeline(document)?;
        if let Some(equality) = &self.equality {
            let values = equality.values(document);
            pipeline.begin_with(Filter::equal_to_any(&equality.foreign, &values)?);
        }
        let documents = match &self.collection {
            Some(collection) => source.run(collection, pipeline)?,
            None => pipeline.run(Box::new(std::iter::empty()), source)?,
        };
        let mut found = RawArrayBuf::new();
        for document in documents {
            found.push(document?);
            if found.as_bytes().len() > MEMORY_LIMIT {
                let what = "match fewer documents in its pipeline";
                return Err(too_much_memory("$lookup", what));
            }
        }
        let found = Arc::new(found);
        if self.equality.is_none() && self.variables.is_empty() {
            *remembered = Some(Arc::clone(&found));
        }
        Ok(found)
    }

    fn pipeline(&self, document: &RawDocument) -> Result<Pipeline> {
        let mut environment = Environment::clone(&self.context.environment);
        for (name, value) in &self.variables {
            environment.set(name, value.of(document)?.into_bson());
        }
        let context = Context {
            environment: Arc::new(environment),
            ..self.context.clone()
        };
        Pipeline::parse_in(self.stages.iter().map(|stage| &**stage), &context)
    }
}

impl Equality {
    /// The values to look for: the elements of an array, and null if there is no value.
    fn values(&self, document: &RawDocument) -> Vec<RawBson> {
        let mut values = Vec::new();
        self.local
            .distinct(document, &mut |value| values.push(value.into()));
        if values.is_empty() {
            values.push(RawBson::Null);
        }
        values
    }
}
