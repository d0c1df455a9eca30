//! `{ listIndexes: "c" }`: the indexes of a collection.

use bson::{RawDocumentBuf, raw::cstr};

use super::Command;
use super::list_collections::take_cursor_options;
use crate::arguments::Arguments;
use crate::cursor::{CursorSource, OpenCursor};
use crate::dispatch::Operation;
use crate::error::{CommandError, Result};

pub(super) const COMMAND: Command = Command::read("listIndexes", run);

/// The version of the definitions of indexes.
const INDEX_VERSION: i32 = 2;

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("listIndexes")?;
    let batch_documents = take_cursor_options(&mut arguments)?;
    arguments.accept(&["includeBuildUUIDs"]);
    arguments.finish()?;
    let name = operation.engine_name(&collection)?;
    let indexes = operation.database().list_indexes(&name)?;
    let namespace = operation.namespace(&collection);
    if indexes.is_empty() {
        return Err(CommandError::namespace_not_found(namespace));
    }
    let mut definitions = Vec::new();
    for index in indexes {
        let mut definition = RawDocumentBuf::new();
        definition.append(cstr!("v"), INDEX_VERSION);
        for element in &index.to_document() {
            let (name, value) = element?;
            definition.append(name, value);
        }
        definitions.push(definition);
    }
    let cursor = OpenCursor::new(namespace, CursorSource::Documents(definitions.into_iter()));
    let cursors = &operation.server.cursors;
    cursors.first_reply(cursor, Some(batch_documents), false)
}
