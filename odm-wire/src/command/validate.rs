//! `{ validate: "c" }`: checks all stored data. Reads the whole file, because the engine checks all collections at once.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

use super::{Command, number};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result};

pub(super) const COMMAND: Command = Command::read("validate", run);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("validate")?;
    // The check is always the full check, and changes nothing.
    arguments.accept(&["full", "metadata", "checkBSONConformance", "scandata"]);
    if arguments.flag("repair")? || arguments.flag("background")? {
        let message = "`validate` has no options `repair` and `background`";
        return Err(CommandError::not_supported(message));
    }
    arguments.finish()?;
    let name = operation.engine_name(&collection)?;
    let namespace = operation.namespace(&collection).to_string();
    let Some(sizes) = operation.database().collection_stats(&name)? else {
        return Err(CommandError::namespace_not_found(namespace));
    };
    let mut errors = RawArrayBuf::new();
    let mut valid = true;
    match operation.database().validate() {
        Ok(()) => {}
        Err(error) if error.is_damaged() => {
            valid = false;
            errors.push(error.message());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(rawdoc! {
        "ns": namespace,
        "nrecords": number(sizes.documents),
        "nIndexes": number(sizes.indexes.len() as u64),
        "valid": valid,
        "errors": errors,
        "warnings": [],
    })
}
