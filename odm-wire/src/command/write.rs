//! The parts that `insert`, `update` and `delete` share.

use bson::{RawArrayBuf, RawDocumentBuf, raw::cstr};

use super::number;
use crate::arguments::Arguments;
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

/// The arguments of every write.
pub(super) struct WriteOptions {
    pub(super) ordered: bool,
    pub(super) variables: RawDocumentBuf,
}

impl WriteOptions {
    pub(super) fn take(arguments: &mut Arguments) -> Result<WriteOptions> {
        // Collections have no validators.
        arguments.accept(&["bypassDocumentValidation", "isTimeseriesNamespace"]);
        Ok(WriteOptions {
            ordered: arguments.optional_flag("ordered")?.unwrap_or(true),
            variables: arguments.document("let")?.unwrap_or_default(),
        })
    }
}

/// Takes the documents or statements of a write.
///
/// # Errors
/// There are none, or too many.
pub(super) fn take_writes(arguments: &mut Arguments, name: &str) -> Result<Vec<RawDocumentBuf>> {
    let writes = arguments.required_documents(name)?;
    let max = usize::try_from(super::hello::MAX_WRITES).unwrap_or(usize::MAX);
    if writes.is_empty() || writes.len() > max {
        let message = format!(
            "Write batch sizes must be between 1 and {max}. Got {} operations.",
            writes.len()
        );
        return Err(CommandError::new(code::INVALID_LENGTH, message));
    }
    Ok(writes)
}

/// Returns the reply of a write without its errors.
pub(super) fn reply(affected: u64) -> RawDocumentBuf {
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("n"), number(affected));
    reply
}

/// Adds the errors of single writes.
///
/// # Errors
/// The first error, in a transaction, if it ends the transaction for another reason than the write.
pub(super) fn append_errors(
    reply: &mut RawDocumentBuf,
    operation: &Operation,
    errors: Vec<(usize, CommandError)>,
) -> Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let namespaces = &operation.server.namespaces;
    let mut entries = RawArrayBuf::new();
    for (index, error) in errors {
        // As on MongoDB, a conflict is an error of the whole command.
        let ends_transaction = [code::WRITE_CONFLICT, code::NO_SUCH_TRANSACTION];
        if operation.is_in_transaction() && ends_transaction.contains(&error.code()) {
            return Err(error);
        }
        entries.push(error.to_write_error(index, namespaces));
    }
    reply.append(cstr!("writeErrors"), entries);
    Ok(())
}
