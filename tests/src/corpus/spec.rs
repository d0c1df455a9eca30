//! The specification of the drivers in the unified format: operations, some in sessions, and the resulting state.
//!
//! Only answers of the database are compared. Cases about features of a driver (client-side checks, retries, snapshot sessions)
//! are not run.

mod matcher;
mod operation;

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use super::backend::Backend;
use super::compare::same_value;
use super::operation::{NotOffered, Operation};
use super::{Failure, Verdict, document, documents, json};
use operation::{CaseRun, StepOutcome};

/// Runs a case step by step, and compares the answers.
pub(super) fn run_case(line: &Document, backend: &mut dyn Backend) -> Verdict {
    ensure_supported(line)?;
    let failed = |expected: &Document, got: &str| {
        let question = doc! {
            "description": line.get("description"), "operations": line.get("operations"),
        };
        Ok(Some(Failure::new(&question, expected, got)))
    };
    if let Err(error) = backend.reset() {
        return failed(&Document::new(), &error);
    }
    for initial in documents(line, "initialData") {
        if let Err(error) = create_collection(initial, backend)? {
            return failed(initial, &json::print_truncated(&error));
        }
    }
    let mut run = CaseRun::new(backend);
    for step in documents(line, "operations") {
        let got = run.step(step)?;
        if !is_expected(step, &got)? {
            return failed(step, &format!("{got:?}"));
        }
    }
    for outcome in documents(line, "outcome") {
        let name = outcome.get_str("collectionName").unwrap_or_default();
        let args = doc! { "sort": { "_id": 1 } };
        let got = backend.run(&Operation::new(name, "find", &args))?;
        let (expected, got) = (outcome.get("documents"), got.get("docs"));
        let same = expected.zip(got).is_some_and(|(a, b)| same_value(a, b));
        if !same {
            return failed(outcome, &format!("{got:?}"));
        }
    }
    Ok(None)
}

/// Rejects cases that need several databases or snapshot sessions. No backend of the runner supports these features.
fn ensure_supported(line: &Document) -> Result<(), NotOffered> {
    let collections = |name| {
        let entries = documents(line, name);
        entries.flat_map(|entry| {
            let names = ["database", "databaseName"];
            names
                .into_iter()
                .filter_map(|name| entry.get_str(name).ok())
        })
    };
    let databases: BTreeSet<_> = ["initialData", "operations", "outcome"]
        .into_iter()
        .flat_map(collections)
        .collect();
    if databases.len() > 1 {
        return Err(NotOffered::new("several databases"));
    }
    // The flattened case lacks the options of the session. The source file name shows the option.
    let file = line.get_str("source").unwrap_or_default();
    if file.contains("/snapshot-sessions") {
        return Err(NotOffered::new("snapshot sessions"));
    }
    Ok(())
}

/// Creates a collection with documents. Returns the error of a failed step.
fn create_collection(
    initial: &Document,
    backend: &mut dyn Backend,
) -> Result<Result<(), Document>, NotOffered> {
    let name = initial.get_str("collectionName").unwrap_or_default();
    let given = doc! { "documents": initial.get("documents") };
    let mut steps = vec![("create", document(initial, "createOptions"))];
    if documents(initial, "documents").next().is_some() {
        steps.push(("insertMany", &given));
    }
    for (step, args) in steps {
        let answer = backend.run(&Operation::new(name, step, args))?;
        if let Ok(error) = answer.get_document("error") {
            return Ok(Err(error.clone()));
        }
    }
    Ok(Ok(()))
}

fn is_expected(step: &Document, got: &StepOutcome) -> Result<bool, NotOffered> {
    let expected_error = step.get_document("expectError").ok();
    let (got, error) = match got {
        StepOutcome::Answer(got) => (got, None),
        StepOutcome::Error { error, answer } => (answer, Some(error)),
    };
    match (expected_error, error) {
        (None, Some(_)) | (Some(_), None) => Ok(false),
        (None, None) => match step.get("expectResult") {
            Some(expected) => matcher::is_match(expected, Some(got)),
            None => Ok(true),
        },
        (Some(expected), Some(error)) => {
            let same = is_same_error(expected, document(step, "observedError"), error)?;
            let part = expected
                .get("expectResult")
                .map_or(Ok(true), |expected| matcher::is_match(expected, Some(got)));
            Ok(same && part?)
        }
    }
}

/// Whether an error matches the expected response and the recorded code. The recorded code also covers code names, message parts
/// and labels in the specification.
fn is_same_error(
    expected: &Document,
    observed: &Document,
    got: &Document,
) -> Result<bool, NotOffered> {
    if let Some(response) = expected.get("errorResponse") {
        let mut sent = got.clone();
        if let Some(message) = sent.remove("message") {
            sent.insert("errmsg", message);
        }
        if !matcher::is_match(response, Some(&Bson::Document(sent)))? {
            return Ok(false);
        }
    }
    let codes = [expected.get("errorCode"), observed.get("code")];
    codes.into_iter().flatten().try_fold(true, |same, code| {
        Ok(same && matcher::is_match(code, got.get("code"))?)
    })
}
