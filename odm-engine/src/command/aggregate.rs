use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf};

use super::aggregate_output::{merge_documents, replace_content};
use super::matches::MatchIterator;
use super::{ReadState, parse_hint, variables};
use crate::catalog::Catalog;
use crate::collation::Collation;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::expression::Environment;
use crate::overlay::WriteOverlay;
use crate::pipeline::output::{self, PipelineOutput};
use crate::pipeline::{CollectionSource, DocumentIterator, Pipeline};
use crate::plan::{self, IndexHint, PlanRequest};
use crate::store::StoreView;
use crate::value;

/// An aggregation: documents that flow through a pipeline of stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aggregate {
    /// The stages in order, such as `{ $match: { … } }`. An empty pipeline returns all documents. The last stage can be `$merge` or
    /// `$out`: the documents then go into a collection.
    pub pipeline: Vec<RawDocumentBuf>,
    /// The values of variables, which expressions read as `$$name`.
    pub variables: RawDocumentBuf,
    /// The index to use: its name, its key, or `{ $natural: 1 }` or `-1` for a collection scan. The planner chooses if `None`.
    pub hint: Option<RawBson>,
    /// The order of strings in every comparison; `None` compares byte by byte. An index serves comparisons of strings only if it has the
    /// same collation.
    pub collation: Option<Collation>,
}

impl Aggregate {
    /// Whether the pipeline writes into a collection: the last stage is `$merge` or `$out`.
    pub fn is_write(&self) -> bool {
        let last = self.pipeline.last();
        let name = last.and_then(|stage| value::fields(stage).next());
        name.is_some_and(|(name, _)| output::is_output(name))
    }
}

/// Runs a pipeline that only reads.
pub(crate) fn run_aggregate(
    reading: ReadState<'_>,
    name: &str,
    aggregate: &Aggregate,
) -> Result<Cursor> {
    let environment =
        variables::parse_environment(&aggregate.variables, aggregate.collation.as_ref())?;
    let (documents, _) = run_pipeline(reading, name, aggregate, &environment)?;
    Ok(Cursor::new(documents))
}

/// Runs a pipeline that writes its documents into a collection.
pub(crate) fn run_output(
    overlay: &mut WriteOverlay,
    name: &str,
    aggregate: &Aggregate,
) -> Result<()> {
    let environment =
        variables::parse_environment(&aggregate.variables, aggregate.collation.as_ref())?;
    // The documents come from the state before the write, even if the pipeline reads the collection that it writes.
    let reading = ReadState::of_overlay(overlay);
    let (documents, output) = run_pipeline(reading, name, aggregate, &environment)?;
    match output {
        Some(PipelineOutput::Out(out)) => replace_content(overlay, &out.collection, documents),
        Some(PipelineOutput::Merge(merge)) => {
            merge_documents(overlay, &merge, &environment, documents)
        }
        None => Err(Error::bad_value("the pipeline writes nothing")),
    }
}

fn run_pipeline(
    reading: ReadState<'_>,
    name: &str,
    aggregate: &Aggregate,
    environment: &Arc<Environment>,
) -> Result<(DocumentIterator, Option<PipelineOutput>)> {
    let stages = aggregate.pipeline.iter().map(|stage| &**stage);
    let mut pipeline = Pipeline::parse(stages, environment)?;
    let output = pipeline.take_output();
    let state = PipelineState {
        view: reading.view.clone(),
        catalog: reading.catalog.clone(),
    };
    let hint = parse_hint(aggregate.hint.as_ref())?;
    let documents = state.run_with_hint(name, pipeline, hint.as_ref())?;
    Ok((documents, output))
}

/// An owned state of the database, for stages that read collections while the caller takes documents.
#[derive(Clone)]
struct PipelineState {
    view: StoreView,
    catalog: Catalog,
}

impl CollectionSource for PipelineState {
    fn run_pipeline(&self, collection: &str, pipeline: Pipeline) -> Result<DocumentIterator> {
        self.run_with_hint(collection, pipeline, None)
    }
}

impl PipelineState {
    fn run_with_hint(
        &self,
        collection: &str,
        mut pipeline: Pipeline,
        hint: Option<&IndexHint>,
    ) -> Result<DocumentIterator> {
        let (filter, sort) = pipeline.take_filter_and_sort();
        let filter = Arc::new(filter);
        let documents: DocumentIterator = match self.catalog.get(collection) {
            None => Box::new(std::iter::empty()),
            Some(collection) => {
                let question = PlanRequest {
                    sort: sort.as_ref(),
                    hint,
                    ..PlanRequest::new(&filter)
                };
                let plan = plan::choose_plan(&self.view, collection, &question)?;
                if let Some(sort) = sort.filter(|_| !plan.is_sorted) {
                    pipeline.prepend_sort(sort);
                }
                let matches = MatchIterator::new(&self.view, collection, plan, filter);
                Box::new(matches.map(|matched| Ok(matched?.as_document()?.to_owned())))
            }
        };
        let source: Arc<dyn CollectionSource> = Arc::new(self.clone());
        pipeline.run(documents, &source)
    }
}
