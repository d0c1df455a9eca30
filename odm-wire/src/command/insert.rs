//! `{ insert: "c", documents: [ … ] }`: new documents.

use bson::RawDocumentBuf;

use super::Command;
use super::write::{self, WriteOptions};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::write("insert", run).in_transaction().retryable();

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("insert")?;
    let options = WriteOptions::take(&mut arguments)?;
    let documents = write::take_writes(&mut arguments, "documents")?;
    arguments.finish()?;
    let name = operation.engine_name_to_write(&collection)?;
    let report = match options.ordered {
        true => operation.engine().insert(&name, documents)?,
        false => operation.engine().insert_unordered(&name, documents)?,
    };
    let mut reply = write::reply(report.inserted as u64);
    let failures = report.failures.into_iter();
    let errors = failures.map(|failure| (failure.position, failure.error.into()));
    write::append_errors(&mut reply, operation, errors.collect());
    Ok(reply)
}
