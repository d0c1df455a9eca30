//! Runs the examples in the documentation of the stages and of the accumulators.

use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf, rawdoc};

use super::stages::STAGES;
use super::{Documents, Pipeline, Source};
use crate::accumulator;
use crate::examples::{self, Example};
use crate::{Error, Result};

/// There are no other collections in the examples.
struct Nothing;

impl Source for Nothing {
    fn run(&self, collection: &str, _: Pipeline) -> Result<Documents> {
        Err(Error::bad_value(collection))
    }
}

#[test]
fn the_examples_of_stages_hold() {
    examples::check(
        "pipeline",
        STAGES.iter().map(|(name, _)| *name),
        |example| {
            let documents = run(&[&example.asked], example);
            documents.into_iter().map(RawBson::Document).collect()
        },
    );
}

#[test]
fn the_examples_of_accumulators_hold() {
    examples::check("accumulator", accumulator::names(), |example| {
        let group = rawdoc! { "$group": { "_id": null, "value": example.asked.clone() } };
        let groups = run(&[&group], example);
        let value = |group: RawDocumentBuf| group.get("value").unwrap().unwrap().into();
        groups.into_iter().map(value).collect()
    });
}

fn run(stages: &[&RawDocumentBuf], example: &Example) -> Vec<RawDocumentBuf> {
    let source: Arc<dyn Source> = Arc::new(Nothing);
    let stages = stages.iter().map(|stage| &***stage);
    let context = super::Context::new(&Arc::default());
    let documents = example.documents.clone().into_iter().map(Ok);
    Pipeline::parse_in(stages, &context)
        .and_then(|pipeline| pipeline.run(Box::new(documents), &source)?.collect())
        .unwrap_or_else(|error| panic!("{}: {error}", example.place))
}
