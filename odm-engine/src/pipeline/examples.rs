//! Runs the examples in the documentation of the stages and of the accumulators: a stage or an accumulator, lines
//! `in: document`, and lines `out: value`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bson::{Bson, RawBson, RawDocumentBuf, rawdoc};

use super::stages::STAGES;
use super::{Documents, Pipeline, Source};
use crate::accumulator;
use crate::{Error, Result};

struct Example {
    place: String,
    asked: RawDocumentBuf,
    documents: Vec<RawDocumentBuf>,
    expected: Vec<RawBson>,
}

/// There are no other collections in the examples.
struct Nothing;

impl Source for Nothing {
    fn run(&self, collection: &str, _: Pipeline) -> Result<Documents> {
        Err(Error::bad_value(collection))
    }
}

#[test]
fn the_examples_of_stages_hold() {
    let shown = examples("pipeline", |example| {
        let documents = run(&[&example.asked], example);
        documents.into_iter().map(RawBson::Document).collect()
    });
    for (name, _) in STAGES {
        assert!(
            shown.contains(&format!("\"{name}\"")),
            "{name} has no example"
        );
    }
}

#[test]
fn the_examples_of_accumulators_hold() {
    let shown = examples("accumulator", |example| {
        let group = rawdoc! { "$group": { "_id": null, "value": example.asked.clone() } };
        let groups = run(&[&group], example);
        let value = |group: RawDocumentBuf| group.get("value").unwrap().unwrap().into();
        groups.into_iter().map(value).collect()
    });
    for name in accumulator::names() {
        assert!(
            shown.contains(&format!("\"{name}\"")),
            "{name} has no example"
        );
    }
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

/// Runs all examples of a folder, and returns what they ask.
fn examples(folder: &str, run: impl Fn(&Example) -> Vec<RawBson>) -> String {
    let mut shown = String::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src")
        .join(folder);
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        if file.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for block in text.split("//! ```text\n").skip(1) {
            let block = block.split("//! ```").next().unwrap();
            let lines = block
                .lines()
                .map(|line| line.trim_start_matches("//!").trim());
            for example in lines.collect::<Vec<_>>().split(|line| line.is_empty()) {
                let example = read(&file, example);
                assert_eq!(run(&example), example.expected, "{}", example.place);
                shown.push_str(&example.place);
            }
        }
    }
    shown
}

fn read(file: &Path, lines: &[&str]) -> Example {
    let first = lines
        .iter()
        .take_while(|line| !line.starts_with("in:") && !line.starts_with("out:"));
    let asked = first.copied().collect::<Vec<_>>().join(" ");
    let place = format!("{}: {asked}", file.display());
    let document = |json| match value(json, &place) {
        RawBson::Document(document) => document,
        other => panic!("{place}: {other:?}"),
    };
    let after = |prefix| {
        lines
            .iter()
            .filter_map(move |line| line.strip_prefix(prefix))
    };
    Example {
        asked: document(&asked),
        documents: after("in:").map(document).collect(),
        expected: after("out:").map(|json| value(json, &place)).collect(),
        place,
    }
}

fn value(json: &str, place: &str) -> RawBson {
    let json: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{place}: {error}: {json}"));
    RawBson::try_from(Bson::try_from(json).unwrap()).unwrap()
}
