//! Aggregation pipelines: documents that flow through stages.
//!
//! A pipeline is parsed once. Running it gives an iterator: stages that look at one document at a time
//! pass it on before they take the next. Each stage is a file of this module, listed in [`stages`]'s
//! registry; the examples in the documentation of each file are run by a test.
//!
//! Stages never see the store: what reads another collection does so through a [`Source`].

mod add_fields;
mod r#match;
mod project;
mod stages;

use std::fmt;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::expression::Environment;
use crate::filter::Filter;
use crate::{Error, Result, value};

/// Documents on their way.
pub(crate) type Documents = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>;

/// A parsed pipeline.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    stages: Vec<Stage>,
}

/// A step of a pipeline. Those that the planner can use have a variant of their own.
#[derive(Debug)]
pub(crate) enum Stage {
    Match(Filter),
    /// Each document becomes another one, as in an update too.
    Transform(Box<dyn Transform>),
    Other(Box<dyn Operator>),
}

/// What makes another document of each one.
pub(crate) trait Transform: fmt::Debug + Send + Sync {
    /// # Errors
    /// What expressions fail with.
    fn apply(&self, document: &RawDocument) -> Result<RawDocumentBuf>;
}

/// A stage that only running has to understand.
pub(crate) trait Operator: fmt::Debug + Send + Sync {
    /// What becomes of the documents.
    ///
    /// # Errors
    /// What a stage fails with that has to see all documents before it gives the first.
    fn run(self: Box<Self>, documents: Documents, source: &Arc<dyn Source>) -> Result<Documents>;
}

/// The collections that a pipeline reads besides its own.
pub(crate) trait Source: Send + Sync {
    /// The documents of a collection, as a pipeline gives them.
    ///
    /// # Errors
    /// What its stages fail with; I/O.
    fn run(&self, collection: &str, pipeline: Pipeline) -> Result<Documents>;
}

impl Pipeline {
    /// Reads the stages of a pipeline.
    ///
    /// # Errors
    /// Unknown stages, malformed operands, with MongoDB's codes.
    pub(crate) fn parse<'d>(
        stages: impl IntoIterator<Item = &'d RawDocument>,
        environment: &Arc<Environment>,
    ) -> Result<Pipeline> {
        let mut pipeline = Pipeline::default();
        for stage in stages {
            value::check(stage)?;
            let mut fields = value::fields(stage);
            let (Some((name, operand)), None) = (fields.next(), fields.next()) else {
                let message = "a stage of a pipeline is a document with exactly one field";
                return Err(Error::server(40323, message));
            };
            let parse = stages::find(name)?;
            pipeline.stages.extend(parse(&stages::Call {
                name,
                operand,
                environment,
            })?);
        }
        Ok(pipeline)
    }

    /// Takes the filters at the beginning off, so that they can be asked of an index.
    pub(crate) fn split_filters(&mut self) -> Filter {
        let is_filter = |stage: &&Stage| matches!(stage, Stage::Match(_));
        let count = self.stages.iter().take_while(is_filter).count();
        let filters = self.stages.drain(..count);
        Filter::all(filters.filter_map(|stage| match stage {
            Stage::Match(filter) => Some(filter),
            _ => None,
        }))
    }

    /// What becomes of the documents.
    ///
    /// # Errors
    /// As [`Operator::run`].
    pub(crate) fn run(self, documents: Documents, source: &Arc<dyn Source>) -> Result<Documents> {
        self.stages
            .into_iter()
            .try_fold(documents, |documents, stage| stage.run(documents, source))
    }
}

impl Stage {
    fn transform(transform: impl Transform + 'static) -> Stage {
        Stage::Transform(Box::new(transform))
    }

    fn run(self, documents: Documents, source: &Arc<dyn Source>) -> Result<Documents> {
        Ok(match self {
            Stage::Match(filter) => {
                Box::new(documents.filter_map(move |document| match document {
                    Ok(document) => filter.matches(&document).then_some(Ok(document)),
                    Err(error) => Some(Err(error)),
                }))
            }
            Stage::Transform(transform) => {
                Box::new(documents.map(move |document| transform.apply(&document?)))
            }
            Stage::Other(operator) => operator.run(documents, source)?,
        })
    }
}
