use std::path::Path;

use odm_engine::{Explain, ExplainStage, Find};
use serde_json::json;

use super::open_collection;
use crate::extended_json::parse_document;
use crate::failure::Result;
use crate::output::Output;

pub(super) fn run(file: &Path, collection: &str, filter: &str, output: &mut Output) -> Result<()> {
    let find = Find {
        filter: parse_document("filter", filter)?,
        ..Find::default()
    };
    let explain = open_collection(file, collection)?.explain(collection, &find)?;
    if output.is_json() {
        return output.json_line(&json!({
            "stage": format!("{:?}", explain.stage),
            "indexes": explain.indexes,
            "bounds": explain.bounds,
            "rejected": explain.rejected,
            "covered": explain.covered,
            "keysExamined": explain.keys_examined,
            "documentsExamined": explain.documents_examined,
            "returned": explain.returned,
        }));
    }
    output.line(describe(&explain))?;
    if !explain.bounds.is_empty() {
        output.line(format_args!("bounds: {}", explain.bounds.join("; ")))?;
    }
    if !explain.rejected.is_empty() {
        output.line(format_args!(
            "rejected indexes: {}",
            explain.rejected.join(", ")
        ))?;
    }
    output.line(format_args!(
        "{} index entries and {} documents examined, {} documents returned",
        explain.keys_examined, explain.documents_examined, explain.returned
    ))
}

fn describe(explain: &Explain) -> String {
    let indexes = explain.indexes.join(", ");
    match explain.stage {
        ExplainStage::CollectionScan => "scan of all documents".to_owned(),
        ExplainStage::IdLookup => "look-up by _id".to_owned(),
        ExplainStage::IndexScan => format!("scan of the index {indexes}"),
        ExplainStage::Union => format!("union of the branches of $or, by the indexes {indexes}"),
        stage => format!("{stage:?}"),
    }
}
