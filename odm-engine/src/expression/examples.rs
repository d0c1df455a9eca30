//! Runs the examples in the documentation of the operators: the lines `expression → value`.

use std::fs;
use std::path::{Path, PathBuf};

use bson::{DateTime, RawBson, RawDocumentBuf};

use super::categories::CATEGORIES;
use super::{Environment, Expression, Names, Scope};
use crate::{Result, examples};

#[test]
fn the_examples_hold() {
    let mut shown = String::new();
    for file in files() {
        for example in lines(&file) {
            let (expression, expected) = example.split_once('→').unwrap();
            let place = format!("{}: {}", file.display(), example);
            shown.push_str(expression);
            let value = evaluate(&examples::value(expression, &place));
            if expected.trim() == "error" {
                assert!(value.is_err(), "{place}");
                continue;
            }
            let value = value.unwrap_or_else(|error| panic!("{place}: {error}"));
            match expected.trim() {
                "missing" => assert_eq!(value, None, "{place}"),
                expected => assert_eq!(value, Some(examples::value(expected, &place)), "{place}"),
            }
        }
    }
    let operators = CATEGORIES.iter().copied().flatten();
    examples::check_shown(operators.map(|(name, _)| *name), &shown);
}

fn files() -> Vec<PathBuf> {
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

fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("//! "));
    lines
        .filter(|line| line.contains('→'))
        .map(str::to_owned)
        .collect()
}

fn evaluate(expression: &RawBson) -> Result<Option<RawBson>> {
    let (document, environment) = (RawDocumentBuf::new(), Environment::new(DateTime::now()));
    let expression = Expression::parse(expression.as_raw_bson_ref(), &Names::of(&environment))?;
    let value = expression.evaluate(&Scope::new(&document, &environment))?;
    Ok(value.into_bson())
}
