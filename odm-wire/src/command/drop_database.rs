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
    for (_, name) in operation.collections(database)? {
        operation.database().drop_collection(&name)?;
    }
    Ok(RawDocumentBuf::new())
}
