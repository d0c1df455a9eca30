//! Runs the examples in the documentation of the operators: the lines `expression → value`.

use std::fs;
use std::path::{Path, PathBuf};

use bson::{DateTime, RawBson, RawDocumentBuf};

use super::categories::CATEGORIES;
use super::{Environment, Expression, VariableScope, VisibleVariables};
use crate::{Result, examples};

#[test]
fn the_examples_hold() {
    let mut text = String::new();
    for file in operator_files() {
        for example in example_lines(&file) {
            let (expression, expected) = example.split_once('→').unwrap();
            let place = format!("{}: {}", file.display(), example);
            text.push_str(expression);
            let value = evaluate_example(&examples::parse_value(expression, &place));
            if expected.trim() == "error" {
                assert!(value.is_err(), "{place}");
                continue;
            }
            let value = value.unwrap_or_else(|error| panic!("{place}: {error}"));
            match expected.trim() {
                "missing" => assert_eq!(value, None, "{place}"),
                expected => assert_eq!(
                    value,
                    Some(examples::parse_value(expected, &place)),
                    "{place}"
                ),
            }
        }
    }
    let operators = CATEGORIES.iter().copied().flatten();
    examples::check_shown(operators.map(|(name, _)| *name), &text);
}

fn operator_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/expression");
    let folders = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir());
    folders
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn example_lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("//! "));
    lines
        .filter(|line| line.contains('→'))
        .map(str::to_owned)
        .collect()
}

fn evaluate_example(expression: &RawBson) -> Result<Option<RawBson>> {
    let (document, environment) = (RawDocumentBuf::new(), Environment::at_time(DateTime::now()));
    let expression = Expression::parse(
        expression.as_raw_bson_ref(),
        &VisibleVariables::of_command(&environment),
    )?;
    let value = expression.evaluate(&VariableScope::new(&document, &environment))?;
    Ok(value.into_bson())
}
