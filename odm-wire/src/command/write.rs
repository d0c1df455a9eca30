//! The parts that `insert`, `update` and `delete` share.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, raw::cstr};
use odm_engine::ErrorKind;

use super::aggregate::to_stages;
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

/// Reads the operand of an update: a document, or the stages of a pipeline with an empty document.
pub(super) fn parse_operand(
    operand: RawBson,
) -> Result<(RawDocumentBuf, Option<Vec<RawDocumentBuf>>)> {
    match operand {
        RawBson::Document(document) => Ok((document, None)),
        RawBson::Array(stages) => Ok((RawDocumentBuf::new(), Some(to_stages(&stages)?))),
        _ => {
            let message = "Update argument must be either an object or an array";
            Err(CommandError::new(code::FAILED_TO_PARSE, message))
        }
    }
}

/// Whether an error concerns one write of the command, and not the command: an interrupted command, or a file system that failed.
pub(super) fn is_of_one_write(error: &odm_engine::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BadValue
            | ErrorKind::DuplicateKey
            | ErrorKind::NotSupported
            | ErrorKind::UnknownOperator
    )
}

/// Returns the reply of a write without its errors.
pub(super) fn reply(affected: u64) -> RawDocumentBuf {
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("n"), number(affected));
    reply
}

/// Adds the errors of single writes.
pub(super) fn append_errors(
    reply: &mut RawDocumentBuf,
    operation: &Operation,
    errors: Vec<(usize, CommandError)>,
) {
    if errors.is_empty() {
        return;
    }
    let namespaces = &operation.server.namespaces;
    let errors = errors.into_iter();
    let entries: RawArrayBuf = errors
        .map(|(index, error)| error.to_write_error(index, namespaces))
        .collect();
    reply.append(cstr!("writeErrors"), entries);
}
