//! `{ dropDatabase: 1 }`: removes all collections of a database, one after the other.

use bson::RawDocumentBuf;

use super::Command;
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::write("dropDatabase", run);

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    arguments.accept(&["dropDatabase"]);
    arguments.finish()?;
    let database = operation.options.database.as_str();
    let collections = operation.collections(database)?;
    for collection in &collections {
        let name = operation.engine_name(collection)?;
        operation.database().drop_collection(&name)?;
    }
    Ok(RawDocumentBuf::new())
}
