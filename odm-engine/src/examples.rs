//! Reads the examples in the documentation of operators and stages, so that a test runs them: what is asked, lines
//! `in: document`, and lines `out: value`. Empty lines separate the examples of a file.

use std::fs;
use std::path::Path;

use bson::{Bson, RawBson, RawDocumentBuf};

pub(crate) struct Example {
    pub(crate) place: String,
    pub(crate) asked: RawDocumentBuf,
    pub(crate) documents: Vec<RawDocumentBuf>,
    expected: Vec<RawBson>,
}

/// Runs all examples of a folder. Each of the operators must have one.
pub(crate) fn check<'n>(
    folder: &str,
    operators: impl IntoIterator<Item = &'n str>,
    run: impl Fn(&Example) -> Vec<RawBson>,
) {
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
    check_shown(operators, &shown);
}

/// Fails if one of the operators has no example among what is shown.
pub(crate) fn check_shown<'n>(operators: impl IntoIterator<Item = &'n str>, shown: &str) {
    for name in operators {
        assert!(
            shown.contains(&format!("\"{name}\"")),
            "{name} has no example"
        );
    }
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

/// A value in relaxed or canonical Extended JSON.
pub(crate) fn value(json: &str, place: &str) -> RawBson {
    let json: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{place}: {error}: {json}"));
    RawBson::try_from(Bson::try_from(json).unwrap()).unwrap()
}
