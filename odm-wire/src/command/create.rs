//! `{ create: "c" }`: an empty collection.

use bson::RawDocumentBuf;

use super::Command;
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::write("create", run).in_transaction();

/// The options that the engine lacks.
const UNSUPPORTED: &[&str] = &[
    "changeStreamPreAndPostImages",
    "clusteredIndex",
    "encryptedFields",
    "expireAfterSeconds",
    "indexOptionDefaults",
    "max",
    "pipeline",
    "size",
    "storageEngine",
    "timeseries",
    "validationAction",
    "validationLevel",
    "validator",
    "viewOn",
];

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("create")?;
    if arguments.flag("capped")? {
        let message = "capped collections are not supported";
        return Err(CommandError::not_supported(message));
    }
    arguments.refuse(UNSUPPORTED)?;
    if arguments.collation()?.is_some() {
        let message = "collections with a default collation are not supported: name the collation in each operation and index";
        return Err(CommandError::not_supported(message));
    }
    // Every collection has the index of `_id`.
    if arguments.optional_flag("autoIndexId")? == Some(false) {
        let message = "collections without an index of `_id` are not supported";
        return Err(CommandError::not_supported(message));
    }
    arguments.accept(&["idIndex", "temp", "flags"]);
    arguments.finish()?;
    let name = operation.engine_name_to_write(&collection)?;
    match operation.engine().create_collection(&name) {
        Err(error) if error.code() == Some(code::NAMESPACE_EXISTS) => {
            let namespace = operation.namespace(&collection);
            let message = format!("Collection already exists. NS: {namespace}");
            Err(CommandError::new(code::NAMESPACE_EXISTS, message))
        }
        created => {
            created?;
            Ok(RawDocumentBuf::new())
        }
    }
}
