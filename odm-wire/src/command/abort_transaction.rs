//! `{ abortTransaction: 1 }`: drops the writes of a transaction.

use bson::RawDocumentBuf;

use super::Command;
use super::commit_transaction::finish_end;
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::Result;

pub(super) const COMMAND: Command = Command::read("abortTransaction", run).ends_transaction();

fn run(operation: &Operation, arguments: Arguments) -> Result<RawDocumentBuf> {
    finish_end(operation, arguments, "abortTransaction")
}
