use std::path::Path;

use odm_engine::Count;
use serde_json::json;

use super::open_collection;
use crate::extended_json::parse_document;
use crate::failure::Result;
use crate::output::Output;

pub(super) fn run(
    file: &Path,
    collection: &str,
    filter: Option<&str>,
    output: &mut Output,
) -> Result<()> {
    let filter = filter.map(|filter| parse_document("filter", filter));
    let count = Count {
        filter: filter.transpose()?.unwrap_or_default(),
        ..Count::default()
    };
    let counted = open_collection(file, collection)?.count(collection, &count)?;
    match output.is_json() {
        true => output.json_line(&json!({ "count": counted })),
        false => output.line(counted),
    }
}
