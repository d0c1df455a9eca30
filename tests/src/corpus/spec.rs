//! The drivers' specification in its unified format: operations, some in sessions, and the state behind them.
//!
//! What a driver adds to a command by itself (its own checks, retries, snapshot sessions) is not asked for: only what a
//! database answers is compared.

mod matcher;
mod operation;

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use super::backend::Backend;
use super::compare::same;
use super::operation::{NotOffered, Operation};
use super::{Failure, Verdict, document, documents, json};
use operation::{Done, Run};

/// Asks a case step by step, and compares.
pub(super) fn judge(line: &Document, backend: &mut dyn Backend) -> Verdict {
    refuse_others(line)?;
    let failed = |expected: &Document, got: &str| {
        let asked = doc! {
            "description": line.get("description"), "operations": line.get("operations"),
        };
        Ok(Some(Failure::new(&asked, expected, got)))
    };
    if let Err(error) = backend.reset() {
        return failed(&Document::new(), &error);
    }
    for initial in documents(line, "initialData") {
        if let Err(error) = fill(initial, backend)? {
            return failed(initial, &json::print(&error));
        }
    }
    let mut run = Run::new(backend);
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
        let same = expected.zip(got).is_some_and(|(a, b)| same(a, b));
        if !same {
            return failed(outcome, &format!("{got:?}"));
        }
    }
    Ok(None)
}

/// What the lines of this format take for granted and no backend of the runner has.
fn refuse_others(line: &Document) -> Result<(), NotOffered> {
    let of = |name| {
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
        .flat_map(of)
        .collect();
    if databases.len() > 1 {
        return Err(NotOffered::new("several databases"));
    }
    // The flattened form does not say how a session was made; its file does.
    let file = line.get_str("source").unwrap_or_default();
    if file.contains("/snapshot-sessions") {
        return Err(NotOffered::new("snapshot sessions"));
    }
    Ok(())
}

/// Makes a collection with documents; the error if that fails.
fn fill(initial: &Document, backend: &mut dyn Backend) -> Result<Result<(), Document>, NotOffered> {
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

fn is_expected(step: &Document, got: &Done) -> Result<bool, NotOffered> {
    let expected_error = step.get_document("expectError").ok();
    let (got, error) = match got {
        Done::Answer(got) => (got, None),
        Done::Error { error, answer } => (answer, Some(error)),
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

/// Its code is the recorded one, whatever of it the specification names: the code, its name, a part of the message, the
/// labels that follow from it.
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
