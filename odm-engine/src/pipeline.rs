//! Aggregation pipelines: documents that flow through stages.
//!
//! A pipeline is parsed once. Running a pipeline returns an iterator. A stage that handles one document at a time passes each
//! document on before it takes the next.
//!
//! Each stage is a file of this module, and is listed in the registry of [`stages`]. A test runs the examples in the
//! documentation of each file.
//!
//! Stages never see the store. A stage that reads a different collection uses a [`CollectionSource`].

mod add_fields;
mod bucket;
mod bucket_auto;
mod count;
mod documents;
#[cfg(test)]
mod examples;
mod facet;
mod field_changes;
mod group;
mod limit;
mod lookup;
mod r#match;
pub(crate) mod merge;
mod nested;
mod out;
pub(crate) mod output;
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
use crate::projection::{FieldChange, Layout};
use crate::sort::{Sort, Sorter};
use crate::value::{self, growth};
use crate::{Error, Result};

pub(crate) use field_changes::TransformSequence;
use output::PipelineOutput;
use stages::{PipelineContext, StageCall};

/// The documents that flow from one stage to the next.
pub(crate) type DocumentIterator = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>;

/// The maximum memory of a stage, in bytes, as on MongoDB.
const MAX_STAGE_BYTES: usize = 100 << 20;

/// The maximum nesting depth of a stage, including itself. As on MongoDB, it is deeper than for a stored document.
const MAX_STAGE_DEPTH: usize = 199;

/// A parsed pipeline.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    stages: Vec<PipelineStage>,
    /// The last stage, if it writes the documents into a collection.
    output: Option<PipelineOutput>,
}

/// A step of a pipeline. The planner and some stages inspect the specific variants.
#[derive(Debug)]
enum PipelineStage {
    Match(Filter),
    Sort(Sort),
    Skip(u64),
    Limit(u64),
    /// Documents listed in the pipeline itself.
    Documents(Vec<RawDocumentBuf>),
    /// A stage that maps each document to a new document. Also usable in an update.
    Transform(Box<dyn DocumentTransform>),
    /// Transforms and filters in sequence. A later transform can restore a field that an earlier transform has removed.
    FieldChanges(Vec<PipelineStage>),
    Other(Box<dyn StageOperator>),
}

/// A mapping from a document to a new document.
pub(crate) trait DocumentTransform: fmt::Debug + Send + Sync {
    /// Returns the new document for `document`.
    ///
    /// # Errors
    /// Errors of expressions.
    fn transform_document(&self, document: &RawDocument) -> Result<RawDocumentBuf>;

    /// Returns the stage as a change of fields. `None` for a stage that builds a new document.
    fn as_field_change(&self) -> Option<FieldChange<'_>> {
        None
    }

    /// Returns the new document for `document`, with restored fields in the positions of `layout`.
    ///
    /// # Errors
    /// Errors of expressions.
    fn transform_in_place(
        &self,
        document: &RawDocument,
        layout: &mut Layout,
    ) -> Result<RawDocumentBuf> {
        if let Some(change) = self.as_field_change() {
            return change.apply(document, layout);
        }
        *layout = Layout::default();
        self.transform_document(document)
    }
}

/// A stage that is only run, and never inspected.
trait StageOperator: fmt::Debug + Send + Sync {
    /// Runs the stage on a stream of documents.
    ///
    /// # Errors
    /// Errors of a stage that reads all documents before it returns the first.
    fn run_stage(
        self: Box<Self>,
        documents: DocumentIterator,
        source: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator>;
}

/// The collections that a pipeline reads in addition to its own.
pub(crate) trait CollectionSource: Send + Sync {
    /// Runs a pipeline on a collection.
    ///
    /// # Errors
    /// Errors of the stages; I/O.
    fn run_pipeline(&self, collection: &str, pipeline: Pipeline) -> Result<DocumentIterator>;
}

impl Pipeline {
    /// Parses the stages of a pipeline.
    ///
    /// # Errors
    /// Unknown stages and malformed operands, with MongoDB's codes.
    pub(crate) fn parse<'d>(
        stages: impl IntoIterator<Item = &'d RawDocument>,
        environment: &Arc<Environment>,
    ) -> Result<Pipeline> {
        let stages = stages
            .into_iter()
            .map(|stage| value::check_depth(stage, MAX_STAGE_DEPTH).map(|()| stage))
            .collect::<Result<Vec<_>>>()?;
        let parse = || Pipeline::parse_in(stages, &PipelineContext::new(environment));
        let pipeline = environment.parse_all(parse)?;
        if pipeline.begins_with_documents() {
            let message = "$documents is only allowed in the pipelines of $lookup and $unionWith";
            return Err(Error::with_server_code(code::INVALID_NAMESPACE, message));
        }
        Ok(pipeline)
    }

    fn parse_in<'d>(
        stages: impl IntoIterator<Item = &'d RawDocument>,
        context: &PipelineContext,
    ) -> Result<Pipeline> {
        let mut pipeline = Pipeline::default();
        let mut context = context.clone();
        for stage in stages {
            context.add_stage()?;
            let mut fields = value::fields(stage);
            let (Some((name, operand)), None) = (fields.next(), fields.next()) else {
                let message = "a stage of a pipeline is a document with exactly one field";
                return Err(Error::with_server_code(40323, message));
            };
            let call = StageCall {
                name,
                operand,
                context: &context,
            };
            if let Some(output) = &pipeline.output {
                return Err(output.not_last_error());
            }
            match output::find_parser(name) {
                Some(parse) => pipeline.output = Some(parse(&call)?),
                None => pipeline.stages.extend(stages::find_parser(name)?(&call)?),
            }
        }
        let is_documents = |stage: &PipelineStage| matches!(stage, PipelineStage::Documents(_));
        if pipeline.stages.iter().skip(1).any(is_documents) {
            let message = "$documents can only be the first stage of a pipeline";
            return Err(Error::with_server_code(40602, message));
        }
        Ok(pipeline)
    }

    /// Removes the leading part that an index can serve: all filters before the first stage that is neither a filter nor a sort,
    /// and the order.
    pub(crate) fn take_filter_and_sort(&mut self) -> (Filter, Option<Sort>) {
        let mut rest = std::mem::take(&mut self.stages).into_iter().peekable();
        let (mut filters, mut sort) = (Vec::new(), None);
        let is_first = |stage: &PipelineStage| {
            matches!(stage, PipelineStage::Match(_) | PipelineStage::Sort(_))
        };
        while let Some(stage) = rest.next_if(is_first) {
            match stage {
                PipelineStage::Match(filter) => filters.push(filter),
                // As on MongoDB, the last of several sorts wins.
                PipelineStage::Sort(order) => sort = Some(order),
                _ => {}
            }
        }
        self.stages = rest.collect();
        (Filter::conjunction_of(filters), sort)
    }

    /// Removes the last stage if it writes the documents into a collection.
    pub(crate) fn take_output(&mut self) -> Option<PipelineOutput> {
        self.output.take()
    }

    /// Inserts a sort at the beginning.
    pub(crate) fn prepend_sort(&mut self, sort: Sort) {
        self.stages.insert(0, PipelineStage::Sort(sort));
    }

    /// Runs the pipeline on a stream of documents.
    ///
    /// # Errors
    /// Errors of stages that read all documents before they return the first.
    pub(crate) fn run(
        self,
        documents: DocumentIterator,
        source: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let mut documents = documents;
        let mut stages = field_changes::combine_stages(self.stages).into_iter();
        while let Some(stage) = stages.next() {
            let rest = stages.as_slice();
            if let (PipelineStage::Sort(_), Some(PipelineStage::Sort(_))) = (&stage, rest.first()) {
                continue;
            }
            let limit = documents_needed(rest);
            documents = stage.run_with_limit(documents, limit, source)?;
        }
        Ok(documents)
    }

    fn prepend_filter(&mut self, filter: Filter) {
        let position = usize::from(self.begins_with_documents());
        self.stages.insert(position, PipelineStage::Match(filter));
    }

    fn begins_with_documents(&self) -> bool {
        matches!(self.stages.first(), Some(PipelineStage::Documents(_)))
    }
}

/// Parses the stages of an update, which handle one document at a time.
///
/// # Errors
/// Malformed stages, and stages that are not allowed in an update (code 72).
pub(crate) fn parse_transforms<'d>(
    stages: impl IntoIterator<Item = &'d RawDocument>,
    environment: &Arc<Environment>,
) -> Result<TransformSequence> {
    let pipeline = Pipeline::parse(stages, environment)?;
    let not_allowed = || {
        let message = "an update by a pipeline can have the stages $addFields, $project, \
                       $replaceRoot, $replaceWith, $set and $unset";
        Error::with_server_code(code::INVALID_OPTIONS, message)
    };
    if pipeline.output.is_some() {
        return Err(not_allowed());
    }
    let transforms = pipeline.stages.into_iter().map(|stage| match stage {
        PipelineStage::Transform(transform) => Ok(transform),
        _ => Err(not_allowed()),
    });
    Ok(TransformSequence::new(transforms.collect::<Result<_>>()?))
}

/// Returns how many documents the stages need at most, if they begin with skips and a limit.
fn documents_needed(stages: &[PipelineStage]) -> Option<u64> {
    let mut skipped = 0_u64;
    for stage in stages {
        match stage {
            PipelineStage::Skip(count) => skipped = skipped.saturating_add(*count),
            PipelineStage::Limit(count) => return Some(skipped.saturating_add(*count)),
            _ => return None,
        }
    }
    None
}

impl PipelineStage {
    fn from_transform(transform: impl DocumentTransform + 'static) -> PipelineStage {
        PipelineStage::Transform(Box::new(transform))
    }

    fn from_operator(operator: impl StageOperator + 'static) -> PipelineStage {
        PipelineStage::Other(Box::new(operator))
    }

    /// Runs the stage. Later stages need no more than `limit` documents.
    fn run_with_limit(
        self,
        documents: DocumentIterator,
        limit: Option<u64>,
        source: &Arc<dyn CollectionSource>,
    ) -> Result<DocumentIterator> {
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(match self {
            PipelineStage::Match(filter) => Box::new(documents.filter_map(move |document| {
                let matching = document.and_then(|document| {
                    interrupt::check()?;
                    let matches = filter.matches(&document)?;
                    Ok(matches.then_some(document))
                });
                matching.transpose()
            })),
            PipelineStage::Sort(sort) => {
                let mut sorter = Sorter::new(&sort, limit);
                for document in documents {
                    sorter.add_document(&document?)?;
                }
                Box::new(sorter.into_sorted().map(Ok))
            }
            // An error is never skipped.
            PipelineStage::Skip(count) => {
                let mut remaining = count;
                Box::new(documents.filter(move |document| {
                    let skip = remaining > 0 && document.is_ok();
                    remaining -= u64::from(skip);
                    !skip
                }))
            }
            PipelineStage::Limit(count) => Box::new(documents.take(size(count))),
            PipelineStage::Documents(documents) => Box::new(documents.into_iter().map(Ok)),
            PipelineStage::Transform(transform) => {
                let apply = move |document: Result<RawDocumentBuf>| {
                    transform.transform_document(&document?)
                };
                check_outputs(documents.map(apply))
            }
            PipelineStage::FieldChanges(stages) => {
                Box::new(documents.filter_map(move |document| {
                    let changed =
                        document.and_then(|document| field_changes::run_stages(&stages, document));
                    changed.transpose()
                }))
            }
            PipelineStage::Other(operator) => check_outputs(operator.run_stage(documents, source)?),
        })
    }
}

/// Checks the size and depth of a stage's output, so that later stages need no checks.
fn check_outputs(
    documents: impl Iterator<Item = Result<RawDocumentBuf>> + Send + 'static,
) -> DocumentIterator {
    Box::new(documents.map(|document| {
        let document = document?;
        interrupt::check()?;
        growth::check_stage_output(&document)?;
        Ok(document)
    }))
}

/// Returns the error for a stage that exceeds its memory limit.
fn too_much_memory(stage: &str, remedy: &str) -> Error {
    let message = format!("{stage} needs more than {MAX_STAGE_BYTES} bytes of memory; {remedy}");
    Error::with_server_code(code::SORT_MEMORY_LIMIT, message)
}
