//! `{ listCollections: 1, filter: { … } }`: the collections of a database.

use bson::{RawDocumentBuf, rawdoc};

use super::Command;
use super::find::take_batch_size;
use crate::arguments::Arguments;
use crate::cursor::{CursorSource, OpenCursor};
use crate::dispatch::Operation;
use crate::documents;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::read("listCollections", run);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["listCollections", "authorizedCollections"]);
    let name_only = arguments.flag("nameOnly")?;
    let filter = arguments.document("filter")?;
    let batch_documents = take_cursor_options(&mut arguments)?;
    arguments.finish()?;
    let read_only = !operation.server.allows_writes;
    let collections = operation.collections(&operation.options.database)?;
    let collections = collections.iter().map(|(name, _)| match name_only {
        true => rawdoc! { "name": name.as_str(), "type": "collection" },
        false => rawdoc! {
            "name": name.as_str(),
            "type": "collection",
            "options": {},
            "info": { "readOnly": read_only },
            "idIndex": { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
        },
    });
    let collections = documents::matching(operation.database(), collections.collect(), filter)?;
    let namespace = operation.namespace("$cmd.listCollections");
    let cursor = OpenCursor::new(namespace, CursorSource::Documents(collections.into_iter()));
    let cursors = &operation.server.cursors;
    cursors.first_reply(cursor, Some(batch_documents), false)
}

/// Takes `cursor: { batchSize }`. By default, all documents are in the first batch.
pub(super) fn take_cursor_options(arguments: &mut Arguments) -> Result<usize> {
    let Some(cursor) = arguments.document("cursor")? else {
        return Ok(usize::MAX);
    };
    let mut cursor = Arguments::nested("cursor", &cursor)?;
    let size = take_batch_size(&mut cursor)?;
    cursor.finish()?;
    Ok(size.unwrap_or(usize::MAX))
}
