//! Reruns of a case with indexes on the paths of the case. Every index set must give the same answer.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use super::backend::Backend;
use super::compare::{ResultOrder, same_answer};
use super::operation::Operation;
use super::{Failure, Verdict, case, document, json};

/// The maximum number of paths per case that get indexes.
const MAX_PATHS: usize = 5;

/// The name of the index that a rerun names as a hint.
const RERUN_INDEX: &str = "again";

/// Runs a passed case again with each index set, and adds the number of runs to `reruns`.
pub(super) fn rerun_with_indexes(
    line: &Document,
    backend: &mut dyn Backend,
    reruns: &mut usize,
) -> Verdict {
    let Some(question) = IndexedCase::of(line) else {
        return Ok(None);
    };
    let expected = if question.is_write() {
        // Generated values differ between runs. The recorded answer marks these values.
        document(line, "expect").clone()
    } else {
        match question.run_with_indexes(backend, &[], None)? {
            Some(answer) => answer,
            None => return Ok(None),
        }
    };
    if question.is_write() && expected.contains_key("error") {
        // The scan order decides which document fails first.
        return Ok(None);
    }
    for indexes in index_sets(line) {
        // A hint can name an index that contains all documents, even if the index does not help.
        let is_complete = |index: &Document| {
            !index.contains_key("sparse") && !index.contains_key("partialFilterExpression")
        };
        let takes_hints = question.name != "distinct";
        let demanded = Some(RERUN_INDEX).filter(|_| takes_hints && indexes.iter().all(is_complete));
        for hint in [None].into_iter().chain(demanded.map(Some)) {
            let Some(got) = question.run_with_indexes(backend, &indexes, hint)? else {
                break;
            };
            *reruns += 1;
            if !same_answer(&expected, &got, question.order) {
                let rerun = doc! {
                    "op": question.name, "args": question.args.clone(), "hint": hint,
                    "with": indexes.as_slice(), "docs": line.get("docs"),
                };
                return Ok(Some(Failure::new(
                    &rerun,
                    &expected,
                    json::print_truncated(&got),
                )));
            }
        }
    }
    Ok(None)
}

/// A case in a form that has the same answer with every index set.
struct IndexedCase<'a> {
    line: &'a Document,
    name: &'a str,
    args: Document,
    order: ResultOrder,
}

impl<'a> IndexedCase<'a> {
    /// Returns `None` if the answer depends on the scan order.
    fn of(line: &'a Document) -> Option<Self> {
        let name = line.get_str("op").ok()?;
        let mut args = document(line, "args").clone();
        let mut order = ResultOrder::Any;
        if args.contains_key("hint") || !args.values().all(is_plain) {
            return None;
        }
        match name {
            "count" | "distinct" | "updateMany" | "deleteMany" => {}
            "find" => match args.get_mut("sort") {
                Some(Bson::Document(sort)) if sort.keys().any(|path| path.starts_with('$')) => {
                    return None;
                }
                Some(Bson::Document(sort)) if !sort.is_empty() => {
                    // Documents with equal sort keys need a unique sort key, the `_id`.
                    if !sort.contains_key("_id") {
                        sort.insert("_id", 1);
                    }
                    order = ResultOrder::Total;
                }
                _ => {
                    args.remove("skip");
                    args.remove("limit");
                }
            },
            _ => return None,
        }
        Some(Self {
            line,
            name,
            args,
            order,
        })
    }

    fn is_write(&self) -> bool {
        self.name.ends_with("Many")
    }

    /// Returns the answer, and the resulting documents of a write. Returns `None` if the indexes cannot be created.
    fn run_with_indexes(
        &self,
        backend: &mut dyn Backend,
        indexes: &[Document],
        hint: Option<&str>,
    ) -> Result<Option<Document>, super::NotOffered> {
        let mut line = self.line.clone();
        let declared = super::documents(self.line, "indexes");
        let all: Vec<_> = declared.chain(indexes).cloned().collect();
        line.insert("indexes", all);
        // A backend can lack support for an index, such as a partial index with some operators.
        if !matches!(case::prepare(&line, backend), Ok(None)) {
            return Ok(None);
        }
        let mut args = self.args.clone();
        args.extend(hint.map(|name| ("hint".to_owned(), Bson::from(name))));
        let mut got = backend.run(&Operation::new(case::COLLECTION, self.name, &args))?;
        if self.is_write() {
            case::add_observed_state(&doc! { "after": true }, &mut got, backend)?;
        }
        Ok(Some(got))
    }
}

/// Whether an argument has a usual type. A case with a misplaced argument tests an error message, and needs no rerun.
fn is_plain(value: &Bson) -> bool {
    matches!(
        value,
        Bson::Document(_)
            | Bson::Array(_)
            | Bson::String(_)
            | Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::Boolean(_)
    )
}

/// Returns index sets on the paths of a case: each path alone (ascending, descending, sparse, partial), compound indexes in
/// several directions, and an index on each path.
fn index_sets(line: &Document) -> Vec<Vec<Document>> {
    let paths = paths_of_case(line);
    let keys = |paths: &mut dyn Iterator<Item = (&String, i32)>| -> Document {
        paths
            .map(|(path, sign)| (path.clone(), Bson::from(sign)))
            .collect()
    };
    let index = |key: Document| doc! { "key": key, "name": RERUN_INDEX };
    let with = |mut index: Document, option: &str, value: Bson| {
        index.insert(option, value);
        index
    };
    let mut sets = Vec::new();
    for path in &paths {
        let ascending = index(doc! { path: 1 });
        sets.push(vec![ascending.clone()]);
        sets.push(vec![index(doc! { path: -1 })]);
        sets.push(vec![with(ascending.clone(), "sparse", true.into())]);
        let exists = Bson::from(doc! { path: { "$exists": true } });
        sets.push(vec![with(
            ascending.clone(),
            "partialFilterExpression",
            exists,
        )]);
        if let Some(filter @ Bson::Document(_)) = document(line, "args").get("filter") {
            sets.push(vec![with(
                ascending,
                "partialFilterExpression",
                filter.clone(),
            )]);
        }
    }
    if paths.len() > 1 {
        let alternating = || [1, -1].into_iter().cycle();
        sets.push(vec![index(keys(&mut paths.iter().map(|path| (path, 1))))]);
        sets.push(vec![index(keys(&mut paths.iter().zip(alternating())))]);
        sets.push(vec![index(keys(
            &mut paths.iter().rev().zip(alternating()),
        ))]);
        let one_each = paths.iter().enumerate().map(|(number, path)| {
            let name = if number == 0 {
                RERUN_INDEX.to_owned()
            } else {
                format!("{RERUN_INDEX}{number}")
            };
            doc! { "key": { path: 1 }, "name": name }
        });
        sets.push(one_each.collect());
    }
    sets
}

/// Returns the paths that a case filters by, sorts by or returns.
fn paths_of_case(line: &Document) -> Vec<String> {
    let args = document(line, "args");
    let mut paths = Vec::new();
    collect_paths("", document(args, "filter"), &mut paths);
    paths.extend(document(args, "sort").keys().cloned());
    if let Ok(path) = args.get_str("field") {
        paths.push(path.to_owned());
    }
    let returned = document(args, "projection").iter();
    let included =
        returned.filter(|(_, value)| matches!(value, Bson::Int32(1) | Bson::Boolean(true)));
    paths.extend(included.map(|(path, _)| path.clone()));
    let mut seen = BTreeSet::new();
    paths.retain(|path| path != "_id" && !path.is_empty() && seen.insert(path.clone()));
    paths.truncate(MAX_PATHS);
    paths
}

fn collect_paths(prefix: &str, filter: &Document, paths: &mut Vec<String>) {
    for (name, value) in filter {
        if name.starts_with('$') {
            let branches = value.as_array().into_iter().flatten();
            for branch in branches.filter_map(Bson::as_document) {
                collect_paths(prefix, branch, paths);
            }
            continue;
        }
        let path = format!("{prefix}{name}");
        if let Some(conditions) = value.as_document() {
            collect_elements(&path, conditions, paths);
        }
        paths.push(path);
    }
}

/// Collects the paths inside the elements of an array.
fn collect_elements(path: &str, conditions: &Document, paths: &mut Vec<String>) {
    for (operator, value) in conditions {
        match (operator.as_str(), value) {
            ("$elemMatch", Bson::Document(inner)) => {
                collect_paths(&format!("{path}."), inner, paths)
            }
            ("$not", Bson::Document(inner)) => collect_elements(path, inner, paths),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_a_case_is_found() {
        let line = doc! { "op": "find", "args": {
            "filter": { "$or": [{ "a": 1 }, { "b": { "$elemMatch": { "c": 1 } } }], "_id": 5 },
            "sort": { "d": 1 }, "projection": { "e": 1, "f": 0, "a": true },
        } };
        assert_eq!(paths_of_case(&line), ["a", "b.c", "b", "d", "e"]);
    }

    #[test]
    fn cases_have_a_unique_answer() {
        let args = |args: Document| {
            let line = doc! { "op": "find", "args": args };
            IndexedCase::of(&line).map(|question| question.args)
        };
        assert_eq!(
            args(doc! { "filter": {}, "limit": 1 }),
            Some(doc! { "filter": {} })
        );
        let sorted = doc! { "sort": { "a": 1 }, "limit": 1 };
        assert_eq!(
            args(sorted),
            Some(doc! { "sort": { "a": 1, "_id": 1 }, "limit": 1 })
        );
        assert_eq!(args(doc! { "sort": { "$natural": 1 } }), None);
    }
}
