//! Cases of several operations, some in transactions, with the expected errors.

use bson::{Bson, Document, doc};

use super::backend::Backend;
use super::compare::{ResultOrder, same_answer};
use super::operation::Operation;
use super::{Failure, Verdict, case, document, documents, json};

/// Runs a case step by step, and compares each answer.
pub(super) fn run_steps(line: &Document, backend: &mut dyn Backend) -> Verdict {
    if let Some(failure) = case::prepare(line, backend)? {
        return Ok(Some(failure));
    }
    for step in documents(line, "steps") {
        let operation = Operation {
            session: step.get_str("session").ok(),
            ..Operation::new(
                step.get_str("collection").unwrap_or(case::COLLECTION),
                step.get_str("op").unwrap_or_default(),
                document(step, "args"),
            )
        };
        let got = backend.run(&operation)?;
        let expected = document(step, "expect");
        if !same_answer(expected, &got, ResultOrder::Total) {
            let question = doc! { "step": step.clone(), "of": line.get("description"), "docs": line.get("docs") };
            return Ok(Some(Failure::new(
                &question,
                expected,
                json::print_truncated(&got),
            )));
        }
    }
    let expected = expected_state(line);
    let mut got = Document::new();
    case::add_observed_state(&expected, &mut got, backend)?;
    if expected.contains_key("count") {
        got.extend(backend.run(&Operation::new(case::COLLECTION, "count", &Document::new()))?);
    }
    let same = same_answer(&expected, &got, ResultOrder::Any);
    let question = doc! { "steps": line.get("steps"), "docs": line.get("docs") };
    Ok((!same).then(|| Failure::new(&question, &expected, json::print_truncated(&got))))
}

/// Returns the expected final state: the documents, or only their number if the documents are too large for a file.
fn expected_state(line: &Document) -> Document {
    let mut state = match line.get("after") {
        Some(Bson::Document(count)) => count.clone(),
        Some(documents) => doc! { "after": documents.clone() },
        None => Document::new(),
    };
    if let Some(indexes) = line.get("indexesAfter") {
        state.insert("indexes", indexes.clone());
    }
    state
}
