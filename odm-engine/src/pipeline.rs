//! Aggregation pipelines: documents that flow through stages.
//!
//! A pipeline is parsed once. Running it gives an iterator: stages that look at one document at a time
//! pass it on before they take the next. Each stage is a file of this module, listed in [`stages`]'s
//! registry; the examples in the documentation of each file are run by a test.
//!
//! Stages never see the store: what reads another collection does so through a [`Source`].

mod add_fields;
mod bucket;
mod bucket_auto;
mod count;
mod documents;
#[cfg(test)]
mod examples;
mod facet;
mod group;
mod limit;
mod lookup;
mod r#match;
mod nested;
mod project;
mod redact;
mod replace_root;
mod sample;
mod skip;
mod sort;
mod sort_by_count;
mod stages;
mod union_with;
mod unset;
mod unwind;

use std::fmt;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::error::code;
use crate::expression::Environment;
use crate::filter::Filter;
use crate::interrupt;
use crate::sort::{Sort, Sorter};
use crate::value::{self, growth};
use crate::{Error, Result};

use stages::{Call, Context};

/// Documents on their way.
pub(crate) type Documents = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>;

/// How many bytes a stage may hold in memory, as on MongoDB.
const MEMORY_LIMIT: usize = 100 << 20;

/// How deep a stage may nest, itself included: more than a stored document, as on MongoDB.
const MAX_DEPTH: usize = 199;

/// A parsed pipeline.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    stages: Vec<Stage>,
}

/// A step of a pipeline. Those that the planner and other stages look at have a variant of their own.
#[derive(Debug)]
enum Stage {
    Match(Filter),
    Sort(Sort),
    Skip(u64),
    Limit(u64),
    /// Documents from the pipeline itself.
    Documents(Vec<RawDocumentBuf>),
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
trait Operator: fmt::Debug + Send + Sync {
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
        let stages = stages
            .into_iter()
            .map(|stage| value::check_within(stage, MAX_DEPTH).map(|()| stage))
            .collect::<Result<Vec<_>>>()?;
        let parse = || Pipeline::parse_in(stages, &Context::new(environment));
        let pipeline = environment.parse_all(parse)?;
        if pipeline.begins_with_documents() {
            let message =
                "$documents gives documents without a collection, within $lookup or $unionWith";
            return Err(Error::server(code::INVALID_NAMESPACE, message));
        }
        Ok(pipeline)
    }

    fn parse_in<'d>(
        stages: impl IntoIterator<Item = &'d RawDocument>,
        context: &Context,
    ) -> Result<Pipeline> {
        let mut pipeline = Pipeline::default();
        let mut context = context.clone();
        for stage in stages {
            context.add_stage()?;
            let mut fields = value::fields(stage);
            let (Some((name, operand)), None) = (fields.next(), fields.next()) else {
                let message = "a stage of a pipeline is a document with exactly one field";
                return Err(Error::server(40323, message));
            };
            let parse = stages::find(name)?;
            pipeline.stages.extend(parse(&Call {
                name,
                operand,
                context: &context,
            })?);
        }
        let is_documents = |stage: &Stage| matches!(stage, Stage::Documents(_));
        if pipeline.stages.iter().skip(1).any(is_documents) {
            let message = "$documents can only be the first stage of a pipeline";
            return Err(Error::server(40602, message));
        }
        Ok(pipeline)
    }

    /// Takes off what an index can do at the beginning: all filters up to the first stage that is neither one nor a
    /// sort, and the order.
    pub(crate) fn split(&mut self) -> (Filter, Option<Sort>) {
        let mut rest = std::mem::take(&mut self.stages).into_iter().peekable();
        let (mut filters, mut sort) = (Vec::new(), None);
        let is_first = |stage: &Stage| matches!(stage, Stage::Match(_) | Stage::Sort(_));
        while let Some(stage) = rest.next_if(is_first) {
            match stage {
                Stage::Match(filter) => filters.push(filter),
                // As on MongoDB, an order is forgotten for the next one.
                Stage::Sort(order) => sort = Some(order),
                _ => {}
            }
        }
        self.stages = rest.collect();
        (Filter::all(filters), sort)
    }

    /// Puts an order at the beginning.
    pub(crate) fn sort_first(&mut self, sort: Sort) {
        self.stages.insert(0, Stage::Sort(sort));
    }

    /// What becomes of the documents.
    ///
    /// # Errors
    /// What stages fail with that have to see all documents before they give the first.
    pub(crate) fn run(self, documents: Documents, source: &Arc<dyn Source>) -> Result<Documents> {
        let mut documents = documents;
        let mut stages = self.stages.into_iter();
        while let Some(stage) = stages.next() {
            let rest = stages.as_slice();
            if let (Stage::Sort(_), Some(Stage::Sort(_))) = (&stage, rest.first()) {
                continue;
            }
            let limit = limit(rest);
            documents = stage.run(documents, limit, source)?;
        }
        Ok(documents)
    }

    fn begin_with(&mut self, filter: Filter) {
        let place = usize::from(self.begins_with_documents());
        self.stages.insert(place, Stage::Match(filter));
    }

    fn begins_with_documents(&self) -> bool {
        matches!(self.stages.first(), Some(Stage::Documents(_)))
    }
}

/// Reads the stages of an update: those that look at one document at a time.
///
/// # Errors
/// Malformed stages, and others (code 72).
pub(crate) fn transforms<'d>(
    stages: impl IntoIterator<Item = &'d RawDocument>,
    environment: &Arc<Environment>,
) -> Result<Vec<Box<dyn Transform>>> {
    let pipeline = Pipeline::parse(stages, environment)?;
    let transforms = pipeline.stages.into_iter().map(|stage| match stage {
        Stage::Transform(transform) => Ok(transform),
        _ => {
            let message = "an update by a pipeline can have the stages $addFields, $project, \
                           $replaceRoot, $replaceWith, $set and $unset";
            Err(Error::server(code::INVALID_OPTIONS, message))
        }
    });
    transforms.collect()
}

/// How many documents stages take at most, if they say so at their beginning.
fn limit(stages: &[Stage]) -> Option<u64> {
    let mut skipped = 0_u64;
    for stage in stages {
        match stage {
            Stage::Skip(count) => skipped = skipped.saturating_add(*count),
            Stage::Limit(count) => return Some(skipped.saturating_add(*count)),
            _ => return None,
        }
    }
    None
}

impl Stage {
    fn transform(transform: impl Transform + 'static) -> Stage {
        Stage::Transform(Box::new(transform))
    }

    fn operator(operator: impl Operator + 'static) -> Stage {
        Stage::Other(Box::new(operator))
    }

    /// What becomes of the documents, of which no more than `limit` are looked at afterwards.
    fn run(
        self,
        documents: Documents,
        limit: Option<u64>,
        source: &Arc<dyn Source>,
    ) -> Result<Documents> {
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(match self {
            Stage::Match(filter) => Box::new(documents.filter_map(move |document| {
                let matching = document.and_then(|document| {
                    interrupt::check()?;
                    let matches = filter.matches(&document)?;
                    Ok(matches.then_some(document))
                });
                matching.transpose()
            })),
            Stage::Sort(sort) => {
                let mut sorter = Sorter::new(&sort, limit);
                for document in documents {
                    sorter.add(&document?)?;
                }
                Box::new(sorter.finish().map(Ok))
            }
            // An error is not skipped.
            Stage::Skip(count) => {
                let mut left = count;
                Box::new(documents.filter(move |document| {
                    let skip = left > 0 && document.is_ok();
                    left -= u64::from(skip);
                    !skip
                }))
            }
            Stage::Limit(count) => Box::new(documents.take(size(count))),
            Stage::Documents(documents) => Box::new(documents.into_iter().map(Ok)),
            Stage::Transform(transform) => {
                let made = move |document: Result<RawDocumentBuf>| transform.apply(&document?);
                checked(documents.map(made))
            }
            Stage::Other(operator) => checked(operator.run(documents, source)?),
        })
    }
}

/// What a stage has made, which the next one can rely on not to be too large or too deep.
fn checked(documents: impl Iterator<Item = Result<RawDocumentBuf>> + Send + 'static) -> Documents {
    Box::new(documents.map(|document| {
        let document = document?;
        interrupt::check()?;
        growth::check_made(&document)?;
        Ok(document)
    }))
}

/// Why a stage cannot go on.
fn too_much_memory(stage: &str, remedy: &str) -> Error {
    let message = format!("{stage} needs more than {MEMORY_LIMIT} bytes of memory; {remedy}");
    Error::server(code::SORT_MEMORY_LIMIT, message)
}
