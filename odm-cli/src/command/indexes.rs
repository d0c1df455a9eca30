use std::path::Path;

use odm_engine::Index;
use serde_json::{Map, Value};

use super::{ensure_collection, open_read_only};
use crate::extended_json;
use crate::failure::Result;
use crate::output::Output;
use crate::text::align_columns;

pub(super) fn run(file: &Path, collection: Option<&str>, output: &mut Output) -> Result<()> {
    let database = open_read_only(file)?;
    let collections = match collection {
        Some(collection) => {
            ensure_collection(&database, file, collection)?;
            vec![collection.to_owned()]
        }
        None => database.list_collections()?,
    };
    let mut definitions = Vec::new();
    for collection in collections {
        for index in database.list_indexes(&collection)? {
            definitions.push(definition(&collection, &index)?);
        }
    }
    if output.is_json() {
        return output.json_line(&Value::Array(
            definitions.into_iter().map(Value::Object).collect(),
        ));
    }
    let rows: Vec<_> = definitions.into_iter().map(row).collect();
    let mut lines = align_columns(&rows, usize::MAX).into_iter();
    lines.try_for_each(|line| output.line(line))
}

/// Returns the definition as of MongoDB's `listIndexes`, with the name of the collection.
fn definition(collection: &str, index: &Index) -> Result<Map<String, Value>> {
    let mut definition = Map::new();
    definition.insert("collection".into(), collection.into());
    if let Value::Object(fields) = extended_json::to_relaxed(&index.to_document())? {
        definition.extend(fields);
    }
    Ok(definition)
}

/// Returns the cells of a definition: the collection, the name, the key, and the options as JSON.
fn row(mut definition: Map<String, Value>) -> Vec<String> {
    let mut text = |field: &str| match definition.shift_remove(field) {
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let mut cells = ["collection", "name", "key"].map(&mut text).to_vec();
    if !definition.is_empty() {
        cells.push(Value::Object(definition).to_string());
    }
    cells
}
