//! `{ delete: "c", deletes: [{ q, limit }] }`: deletes documents.

use bson::{RawDocument, RawDocumentBuf};
use odm_engine::{CollectionWrite, Delete, WriteOperation, WriteReport};

use super::Command;
use super::update::ensure_single;
use super::write::{self, WriteOptions};
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::write("delete", run).in_transaction().retryable();

fn run(operation: &Operation, mut arguments: Arguments) -> Result<RawDocumentBuf> {
    let collection = arguments.collection("delete")?;
    let options = WriteOptions::take(&mut arguments)?;
    let statements = write::take_writes(&mut arguments, "deletes")?;
    arguments.finish()?;
    let name = operation.engine_name_to_write(&collection)?;
    let writes = statements.iter().map(|statement| {
        let delete = parse_delete(operation, statement, &options)?;
        Ok(CollectionWrite {
            collection: name.clone(),
            write: WriteOperation::Delete(delete),
            stop_if_unmatched: false,
        })
    });
    let writes = writes.collect::<Result<Vec<_>>>()?;
    let reports = operation.engine().bulk_write(&writes, options.ordered)?;
    let (mut deleted, mut errors) = (0, Vec::new());
    for (index, report) in reports.into_iter().enumerate() {
        match report {
            Ok(WriteReport::Deleted(report)) => deleted += report.deleted,
            Ok(WriteReport::Inserted | WriteReport::Updated(_)) => {}
            Err(error) => errors.push((index, error.into())),
        }
    }
    let mut reply = write::reply(deleted);
    write::append_errors(&mut reply, operation, errors);
    Ok(reply)
}

/// Reads `{ q, limit, hint, collation }`.
fn parse_delete(
    operation: &Operation,
    statement: &RawDocument,
    options: &WriteOptions,
) -> Result<Delete> {
    let mut arguments = Arguments::nested("delete.deletes", statement)?;
    let limit = arguments.integer("limit")?;
    let multi = match limit {
        Some(0) => true,
        Some(1) => false,
        Some(limit) => {
            let message = format!("The limit field in delete objects must be 0 or 1. Got {limit}");
            return Err(CommandError::new(code::FAILED_TO_PARSE, message));
        }
        None => return Err(arguments.missing("limit")),
    };
    let delete = Delete {
        filter: arguments.required_document("q")?,
        multi,
        variables: options.variables.clone(),
        hint: arguments.hint()?,
        collation: arguments.collation()?,
    };
    arguments.finish()?;
    ensure_single(operation, multi)?;
    Ok(delete)
}
