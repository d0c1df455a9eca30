//! Cases of every type with every operator, on shared sets of documents.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use bson::{Bson, Document, doc};

use super::backend::Backend;
use super::compare::{ResultOrder, same_answer, same_value};
use super::operation::Operation;
use super::{Failure, Verdict, case, document, json};

/// The sets of documents, from the file next to the file of cases.
pub(super) struct Datasets {
    file: PathBuf,
    sets: Option<BTreeMap<String, Document>>,
}

impl Datasets {
    pub(super) fn beside(cases: &Path) -> Self {
        Self {
            file: cases.with_file_name("matrix_datasets.jsonl"),
            sets: None,
        }
    }

    fn get(&mut self, name: &str) -> Result<&Document, String> {
        if self.sets.is_none() {
            let text = fs::read_to_string(&self.file);
            let text = text.map_err(|error| format!("{}: {error}", self.file.display()))?;
            let named = |line| {
                json::parse_line(line)
                    .map(|set| (set.get_str("dataset").unwrap_or_default().to_owned(), set))
            };
            self.sets = Some(text.lines().map(named).collect::<Result<_, _>>()?);
        }
        let set = self.sets.as_ref().and_then(|sets| sets.get(name));
        set.ok_or_else(|| format!("there is no set of documents {name}"))
    }
}

/// Runs a case and compares the answer.
pub(super) fn run_matrix_case(
    line: &Document,
    backend: &mut dyn Backend,
    datasets: &mut Datasets,
) -> Verdict {
    let expected = document(line, "expect");
    let failed = |got: String| {
        let question =
            doc! { "dataset": line.get("dataset"), "op": line.get("op"), "args": line.get("args") };
        Ok(Some(Failure::new(&question, expected, got)))
    };
    let set = match datasets.get(line.get_str("dataset").unwrap_or_default()) {
        Ok(set) => set,
        Err(error) => return failed(error),
    };
    if let Some(failure) = case::prepare(set, backend)? {
        return Ok(Some(failure));
    }
    let name = line.get_str("op").unwrap_or_default();
    let mut got = backend.run(&Operation::new(
        case::COLLECTION,
        name,
        document(line, "args"),
    ))?;
    if expected.contains_key("changed") {
        case::add_observed_state(&doc! { "after": true }, &mut got, backend)?;
        let changed = changed_documents(set, &got);
        got.remove("after");
        got.insert("changed", changed);
    }
    if same_answer(expected, &got, ResultOrder::Total) {
        return Ok(None);
    }
    failed(json::print_truncated(&got))
}

/// Returns the documents that are not in the set.
fn changed_documents(set: &Document, got: &Document) -> Vec<Bson> {
    let before = set.get_array("docs").map_or(&[][..], Vec::as_slice);
    let after = got.get_array("after").map_or(&[][..], Vec::as_slice);
    let is_new = |document: &&Bson| !before.iter().any(|old| same_value(old, document));
    after.iter().filter(is_new).cloned().collect()
}
