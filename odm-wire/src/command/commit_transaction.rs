//! `{ commitTransaction: 1 }`: makes the writes of a transaction durable and visible.

use bson::RawDocumentBuf;

use super::Command;
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};
use crate::request::OperationNumber;

pub(crate) const COMMAND: Command = Command::read("commitTransaction", run).ends_transaction();

fn run(operation: &Operation, arguments: Arguments) -> Result<RawDocumentBuf> {
    finish_end(operation, arguments, "commitTransaction")
}

/// Checks the arguments of a command that has ended a transaction.
pub(super) fn finish_end(
    operation: &Operation,
    mut arguments: Arguments,
    name: &str,
) -> Result<RawDocumentBuf> {
    if operation.options.database != "admin" {
        let message = format!("{name} may only be run against the admin database.");
        return Err(CommandError::new(code::UNAUTHORIZED, message));
    }
    if !matches!(
        operation.options.number,
        OperationNumber::Transaction { .. }
    ) {
        let message = format!("{name} must be run within a transaction");
        return Err(CommandError::new(code::INVALID_OPTIONS, message));
    }
    // A token for sharded clusters.
    arguments.accept(&[name, "recoveryToken"]);
    arguments.finish()?;
    Ok(RawDocumentBuf::new())
}
