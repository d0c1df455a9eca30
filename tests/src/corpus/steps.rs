//! Several operations, some of them in transactions: errors.

use bson::{Bson, Document, doc};

use super::backend::Backend;
use super::compare::{Order, same_answer};
use super::operation::Operation;
use super::{Failure, Verdict, case, document, documents, json};

/// Asks a case step by step, and compares each.
pub(super) fn judge(line: &Document, backend: &mut dyn Backend) -> Verdict {
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
        if !same_answer(expected, &got, Order::Total) {
            let asked = doc! { "step": step.clone(), "of": line.get("description"), "docs": line.get("docs") };
            return Ok(Some(Failure::new(&asked, expected, json::print(&got))));
        }
    }
    let expected = state(line);
    let mut got = Document::new();
    case::observe(&expected, &mut got, backend)?;
    if expected.contains_key("count") {
        got.extend(backend.run(&Operation::new(case::COLLECTION, "count", &Document::new()))?);
    }
    let same = same_answer(&expected, &got, Order::Any);
    let asked = doc! { "steps": line.get("steps"), "docs": line.get("docs") };
    Ok((!same).then(|| Failure::new(&asked, &expected, json::print(&got))))
}

/// What is left at the end; of documents that are too large for a file, their number.
fn state(line: &Document) -> Document {
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
