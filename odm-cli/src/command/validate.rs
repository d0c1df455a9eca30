use std::path::Path;

use odm_engine::Database;
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::output::Output;

pub(super) fn run(file: &Path, output: &mut Output) -> Result<()> {
    let problem = find_problem(file)?;
    if output.is_json() {
        output.json_line(&json!({ "valid": problem.is_none(), "problem": problem }))?;
    }
    match problem {
        Some(problem) => Err(Failure::Problem(format!("{}: {problem}", file.display()))),
        None if output.is_json() => Ok(()),
        None => output.line(format_args!("{} is valid", file.display())),
    }
}

/// Returns the first problem of the file. A damaged page may already be found when the file is opened.
fn find_problem(file: &Path) -> Result<Option<String>> {
    let validated = match Database::open_read_only(file) {
        Ok(database) => database.validate(),
        Err(error) if error.is_damaged() => Err(error),
        Err(error) => return Err(Failure::open(file, &error)),
    };
    match validated {
        Ok(()) => Ok(None),
        Err(error) if error.is_damaged() => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
