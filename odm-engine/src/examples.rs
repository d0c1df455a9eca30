//! Runs the examples in the documentation of operators and stages.
//!
//! An example has the operator or stage, then lines `in: document`, then lines `out: value`. Empty lines separate the examples of
//! a file.

use std::fs;
use std::path::Path;

use bson::{Bson, RawBson, RawDocumentBuf};

pub(crate) struct Example {
    pub(crate) location: String,
    pub(crate) request: RawDocumentBuf,
    pub(crate) documents: Vec<RawDocumentBuf>,
    expected: Vec<RawBson>,
}

/// Runs all examples of a folder. Fails if an operator has no example.
pub(crate) fn check_examples<'n>(
    folder: &str,
    operators: impl IntoIterator<Item = &'n str>,
    run: impl Fn(&Example) -> Vec<RawBson>,
) {
    let mut notation = String::new();
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
                let example = parse_example(&file, example);
                assert_eq!(run(&example), example.expected, "{}", example.location);
                notation.push_str(&example.location);
            }
        }
    }
    check_shown(operators, &notation);
}

/// Fails if an operator has no example in `notation`.
pub(crate) fn check_shown<'n>(operators: impl IntoIterator<Item = &'n str>, notation: &str) {
    for name in operators {
        assert!(
            notation.contains(&format!("\"{name}\"")),
            "{name} has no example"
        );
    }
}

fn parse_example(file: &Path, lines: &[&str]) -> Example {
    let first = lines
        .iter()
        .take_while(|line| !line.starts_with("in:") && !line.starts_with("out:"));
    let request_text = first.copied().collect::<Vec<_>>().join(" ");
    let place = format!("{}: {request_text}", file.display());
    let document = |json| match parse_value(json, &place) {
        RawBson::Document(document) => document,
        other => panic!("{place}: {other:?}"),
    };
    let after = |prefix| {
        lines
            .iter()
            .filter_map(move |line| line.strip_prefix(prefix))
    };
    Example {
        request: document(&request_text),
        documents: after("in:").map(document).collect(),
        expected: after("out:")
            .map(|json| parse_value(json, &place))
            .collect(),
        location: place,
    }
}

/// Parses a value in relaxed or canonical Extended JSON.
pub(crate) fn parse_value(json: &str, place: &str) -> RawBson {
    let json: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{place}: {error}: {json}"));
    RawBson::try_from(Bson::try_from(json).unwrap()).unwrap()
}
