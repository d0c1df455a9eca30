use std::path::Path;

use odm_engine::{CollectionStats, DatabaseStats, IndexStats};
use serde_json::{Value, json};

use super::open_read_only;
use crate::extended_json;
use crate::failure::Result;
use crate::output::Output;
use crate::text::{align_columns, format_bytes};

pub(super) fn run(file: &Path, output: &mut Output) -> Result<()> {
    let stats = open_read_only(file)?.stats()?;
    if output.is_json() {
        return output.json_line(&to_json(&stats)?);
    }
    let file_bytes = stats.file_bytes.map(format_bytes).unwrap_or_default();
    let log = stats.log_bytes.map(format_bytes);
    let log = log.map_or("no write-ahead log".to_owned(), |log| {
        format!("{log} in the write-ahead log")
    });
    output.line(format_args!(
        "{}: {file_bytes}, format {}, {log}",
        file.display(),
        stats.format_version
    ))?;
    for line in align_columns(&rows(&stats)?, 2) {
        output.line(line)?;
    }
    Ok(())
}

/// Returns the rows of a table: a row for each collection, and a row for each of its indexes.
fn rows(stats: &DatabaseStats) -> Result<Vec<Vec<String>>> {
    let header = ["collection, index", "key", "entries", "size"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for collection in &stats.collections {
        rows.push(vec![
            collection.name.clone(),
            String::new(),
            collection.documents.to_string(),
            format_bytes(collection.document_bytes),
        ]);
        for index in &collection.indexes {
            rows.push(vec![
                format!("  {}", index.index.name),
                key_of(index)?.to_string(),
                index.entries.to_string(),
                format_bytes(index.entry_bytes),
            ]);
        }
    }
    Ok(rows)
}

fn to_json(stats: &DatabaseStats) -> Result<Value> {
    let collections = stats.collections.iter().map(collection_to_json);
    Ok(json!({
        "fileBytes": stats.file_bytes,
        "logBytes": stats.log_bytes,
        "formatVersion": stats.format_version,
        "collections": collections.collect::<Result<Vec<_>>>()?,
    }))
}

fn collection_to_json(collection: &CollectionStats) -> Result<Value> {
    let indexes = collection.indexes.iter().map(|index| {
        Ok(json!({
            "name": index.index.name,
            "key": key_of(index)?,
            "entries": index.entries,
            "entryBytes": index.entry_bytes,
        }))
    });
    Ok(json!({
        "name": collection.name,
        "documents": collection.documents,
        "documentBytes": collection.document_bytes,
        "indexes": indexes.collect::<Result<Vec<_>>>()?,
    }))
}

fn key_of(index: &IndexStats) -> Result<Value> {
    let definition = extended_json::to_relaxed(&index.index.to_document())?;
    Ok(definition.get("key").cloned().unwrap_or_default())
}
