//! `{ drop: "c" }`: removes a collection.

use bson::{RawDocumentBuf, rawdoc};

use super::{Command, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result};

pub(super) const COMMAND: Command = Command::write("drop", run);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("drop")?;
    arguments.finish()?;
    let name = operation.engine_name_to_write(&collection)?;
    let indexes = operation.database().list_indexes(&name)?.len();
    let namespace = operation.namespace(&collection).to_string();
    if indexes == 0 {
        // Every collection has the index of `_id`, so there is no collection.
        return Err(CommandError::namespace_not_found(namespace));
    }
    operation.database().drop_collection(&name)?;
    Ok(rawdoc! { "nIndexesWas": number(indexes as u64), "ns": namespace })
}
