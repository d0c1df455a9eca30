//! Same answer with every index: a case asked again with indexes on the paths that it touches.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use super::backend::Backend;
use super::compare::{Order, same_answer};
use super::operation::Operation;
use super::{Failure, Verdict, case, document, json};

/// How many paths of a case get indexes of their own.
const MAX_PATHS: usize = 5;

/// The index that a rerun demands.
const NAME: &str = "again";

/// Asks a case that has passed again, with each set of indexes, and counts how often in `reruns`.
pub(super) fn judge(line: &Document, backend: &mut dyn Backend, reruns: &mut usize) -> Verdict {
    let Some(question) = Question::of(line) else {
        return Ok(None);
    };
    let expected = if question.is_write() {
        // What is generated is different each time, and the record says so.
        document(line, "expect").clone()
    } else {
        match question.ask(backend, &[], None)? {
            Some(answer) => answer,
            None => return Ok(None),
        }
    };
    if question.is_write() && expected.contains_key("error") {
        // Which document fails first depends on where the search begins.
        return Ok(None);
    }
    for indexes in index_sets(line) {
        // An index that holds all documents may also be demanded, whether it helps or not.
        let is_complete = |index: &Document| {
            !index.contains_key("sparse") && !index.contains_key("partialFilterExpression")
        };
        let takes_hints = question.name != "distinct";
        let demanded = Some(NAME).filter(|_| takes_hints && indexes.iter().all(is_complete));
        for hint in [None].into_iter().chain(demanded.map(Some)) {
            let Some(got) = question.ask(backend, &indexes, hint)? else {
                break;
            };
            *reruns += 1;
            if !same_answer(&expected, &got, question.order) {
                let asked = doc! {
                    "op": question.name, "args": question.args.clone(), "hint": hint,
                    "with": indexes.as_slice(), "docs": line.get("docs"),
                };
                return Ok(Some(Failure::new(&asked, &expected, json::print(&got))));
            }
        }
    }
    Ok(None)
}

/// A case, so put that there is one answer whatever the indexes are.
struct Question<'a> {
    line: &'a Document,
    name: &'a str,
    args: Document,
    order: Order,
}

impl<'a> Question<'a> {
    /// None if the answer depends on where the search begins.
    fn of(line: &'a Document) -> Option<Self> {
        let name = line.get_str("op").ok()?;
        let mut args = document(line, "args").clone();
        let mut order = Order::Any;
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
                    // Equal documents have an order only by what is different in all.
                    if !sort.contains_key("_id") {
                        sort.insert("_id", 1);
                    }
                    order = Order::Total;
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

    /// The answer, and the documents behind a write; none if there cannot be such indexes.
    fn ask(
        &self,
        backend: &mut dyn Backend,
        indexes: &[Document],
        hint: Option<&str>,
    ) -> Result<Option<Document>, super::NotOffered> {
        let mut line = self.line.clone();
        let own = super::documents(self.line, "indexes");
        let all: Vec<_> = own.chain(indexes).cloned().collect();
        line.insert("indexes", all);
        // Also what a backend does not have, such as a partial index by some operator.
        if !matches!(case::prepare(&line, backend), Ok(None)) {
            return Ok(None);
        }
        let mut args = self.args.clone();
        args.extend(hint.map(|name| ("hint".to_owned(), Bson::from(name))));
        let mut got = backend.run(&Operation::new(case::COLLECTION, self.name, &args))?;
        if self.is_write() {
            case::observe(&doc! { "after": true }, &mut got, backend)?;
        }
        Ok(Some(got))
    }
}

/// What a misplaced argument says is not worth asking again.
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

/// Indexes on the paths of a case: each alone, ascending, descending, sparse and partial; all together,
/// in both orders; and an index of each.
fn index_sets(line: &Document) -> Vec<Vec<Document>> {
    let paths = touched(line);
    let keys = |paths: &mut dyn Iterator<Item = (&String, i32)>| -> Document {
        paths
            .map(|(path, sign)| (path.clone(), Bson::from(sign)))
            .collect()
    };
    let index = |key: Document| doc! { "key": key, "name": NAME };
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
                NAME.to_owned()
            } else {
                format!("{NAME}{number}")
            };
            doc! { "key": { path: 1 }, "name": name }
        });
        sets.push(one_each.collect());
    }
    sets
}

/// The paths that a case asks about, sorts by or returns.
fn touched(line: &Document) -> Vec<String> {
    let args = document(line, "args");
    let mut paths = Vec::new();
    collect("", document(args, "filter"), &mut paths);
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

fn collect(prefix: &str, filter: &Document, paths: &mut Vec<String>) {
    for (name, value) in filter {
        if name.starts_with('$') {
            let branches = value.as_array().into_iter().flatten();
            for branch in branches.filter_map(Bson::as_document) {
                collect(prefix, branch, paths);
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

/// The paths within the elements of an array.
fn collect_elements(path: &str, conditions: &Document, paths: &mut Vec<String>) {
    for (operator, value) in conditions {
        match (operator.as_str(), value) {
            ("$elemMatch", Bson::Document(inner)) => collect(&format!("{path}."), inner, paths),
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
        assert_eq!(touched(&line), ["a", "b.c", "b", "d", "e"]);
    }

    #[test]
    fn the_answer_does_not_depend_on_where_the_search_begins() {
        let args = |args: Document| {
            let line = doc! { "op": "find", "args": args };
            Question::of(&line).map(|question| question.args)
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
