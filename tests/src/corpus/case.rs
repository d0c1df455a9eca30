//! Cases with an operation on a collection: query, update, aggregate, expr, indexes, jsonschema, fuzz.

use bson::{Bson, Document, doc};

use super::backend::Backend;
use super::compare::{ResultOrder, same_answer, sort_arrays};
use super::operation::{NotOffered, Operation};
use super::{Failure, Verdict, document, documents, json};

/// The collection of all cases.
pub(super) const COLLECTION: &str = "c";

/// Runs a case and compares the answer.
pub(super) fn run_case(line: &Document, backend: &mut dyn Backend) -> Verdict {
    if let Some(failure) = prepare(line, backend)? {
        return Ok(Some(failure));
    }
    let args = document(line, "args");
    let operation = Operation::new(COLLECTION, line.get_str("op").unwrap_or_default(), args);
    let mut got = backend.run(&operation)?;
    let mut expected = document(line, "expect").clone();
    add_observed_state(&expected, &mut got, backend)?;
    let order = match line.get_str("order") {
        Ok("any") => ResultOrder::Any,
        _ => ResultOrder::Total,
    };
    if line.get("setArrays") == Some(&Bson::Boolean(true)) {
        for answer in [&mut expected, &mut got] {
            if let Some(Bson::Array(found)) = answer.get_mut("docs") {
                found.iter_mut().for_each(sort_arrays);
            }
        }
    }
    let same = same_answer(&expected, &got, order);
    Ok((!same).then(|| {
        Failure::new(
            &failure_summary(line),
            &expected,
            json::print_truncated(&got),
        )
    }))
}

/// Creates the state before a case: collections with indexes and documents.
pub(super) fn prepare(line: &Document, backend: &mut dyn Backend) -> Verdict {
    let failed =
        |error: String| Failure::new(&failure_summary(line), &doc! { "setup": true }, error);
    if let Err(error) = backend.reset() {
        return Ok(Some(failed(error)));
    }
    let mut steps = Vec::new();
    if line.get("exists") != Some(&Bson::Boolean(false)) {
        steps.push((COLLECTION, "create", Document::new()));
    }
    let mut fill = |collection, documents: &Bson| {
        if documents
            .as_array()
            .is_some_and(|documents| !documents.is_empty())
        {
            steps.push((
                collection,
                "insertMany",
                doc! { "documents": documents.clone() },
            ));
        }
    };
    for (collection, documents) in document(line, "others") {
        fill(collection.as_str(), documents);
    }
    fill(COLLECTION, line.get("docs").unwrap_or(&Bson::Null));
    // The indexes must exist before the documents are inserted.
    if documents(line, "indexes").next().is_some() {
        let indexes = doc! { "indexes": line.get("indexes").cloned() };
        let first = steps
            .iter()
            .take_while(|(_, name, _)| *name == "create")
            .count();
        steps.insert(first, (COLLECTION, "createIndexes", indexes));
    }
    for (collection, name, args) in &steps {
        let answer = backend.run(&Operation::new(collection, name, args))?;
        if answer.contains_key("error") {
            return Ok(Some(failed(format!("{name}: {answer}"))));
        }
    }
    Ok(None)
}

/// Adds the state after the operation to an answer, if the case expects a state.
pub(super) fn add_observed_state(
    expected: &Document,
    answer: &mut Document,
    backend: &mut dyn Backend,
) -> Result<(), NotOffered> {
    for (name, look, field) in [
        ("after", "find", "docs"),
        ("indexes", "listIndexes", "indexes"),
    ] {
        if expected.contains_key(name) {
            let mut state = backend.run(&Operation::new(COLLECTION, look, &Document::new()))?;
            answer.insert(name, state.remove(field));
        }
    }
    Ok(())
}

/// Returns the parts of a failed case that a report shows.
fn failure_summary(line: &Document) -> Document {
    let named = |name: &&str| line.contains_key(*name);
    let shown = ["op", "args", "indexes", "docs"].into_iter().filter(named);
    shown
        .map(|name| {
            (
                name.to_owned(),
                line.get(name).cloned().unwrap_or(Bson::Null),
            )
        })
        .collect()
}
