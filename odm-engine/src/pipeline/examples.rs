//! Runs the examples in the documentation of stages and accumulators.

use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf, rawdoc};

use super::stages::STAGES;
use super::{CollectionSource, DocumentIterator, Pipeline};
use crate::accumulator;
use crate::examples::{self, Example};
use crate::{Error, Result};

/// A source without collections: the examples read no other collections.
struct NoCollections;

impl CollectionSource for NoCollections {
    fn run_pipeline(&self, collection: &str, _: Pipeline) -> Result<DocumentIterator> {
        Err(Error::bad_value(collection))
    }
}

#[test]
fn the_examples_of_stages_hold() {
    examples::check_examples(
        "pipeline",
        STAGES.iter().map(|(name, _)| *name),
        |example| {
            let documents = run_example(&[&example.request], example);
            documents.into_iter().map(RawBson::Document).collect()
        },
    );
}

#[test]
fn the_examples_of_accumulators_hold() {
    examples::check_examples("accumulator", accumulator::accumulator_names(), |example| {
        let group = rawdoc! { "$group": { "_id": null, "value": example.request.clone() } };
        let groups = run_example(&[&group], example);
        let value = |group: RawDocumentBuf| group.get("value").unwrap().unwrap().into();
        groups.into_iter().map(value).collect()
    });
}

fn run_example(stages: &[&RawDocumentBuf], example: &Example) -> Vec<RawDocumentBuf> {
    let source: Arc<dyn CollectionSource> = Arc::new(NoCollections);
    let stages = stages.iter().map(|stage| &***stage);
    let context = super::PipelineContext::new(&Arc::default());
    let documents = example.documents.clone().into_iter().map(Ok);
    Pipeline::parse_in(stages, &context)
        .and_then(|pipeline| pipeline.run(Box::new(documents), &source)?.collect())
        .unwrap_or_else(|error| panic!("{}: {error}", example.location))
}
