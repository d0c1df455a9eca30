//! Write commands with a complete answer, which the driver does not retry.

use ::mongodb::{Database, bson::Document};
use bson::{
    RawArrayBuf, RawDocumentBuf,
    raw::{CStr, cstr},
};

use super::{WriteSession, error};
use crate::Result;

/// The maximum size of a document that MongoDB stores, in bytes.
///
/// A command is limited to the same size: it is a single document that the driver does not split, and the server allows only
/// little more.
pub(super) const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// The maximum number of documents that MongoDB inserts, changes or deletes by one command.
pub(super) const MAX_STATEMENTS: usize = 100_000;

/// The overhead of an element in a BSON array, in bytes: the type, and the position as the name.
pub(super) const ARRAY_ELEMENT_OVERHEAD_BYTES: usize = 8;

/// Sends a write command. `name` is the command, and `array` its field with the statements.
pub(super) async fn send_write_command<'d>(
    database: &Database,
    (name, array): (&CStr, &CStr),
    collection: &str,
    statements: impl IntoIterator<Item = &'d RawDocumentBuf>,
    ordered: bool,
    session: WriteSession<'_>,
) -> Result<Document> {
    let mut array_of_statements = RawArrayBuf::new();
    for statement in statements {
        array_of_statements.push(statement.as_ref());
    }
    let mut command = RawDocumentBuf::new();
    command.append(name, collection);
    command.append(array, array_of_statements);
    command.append(cstr!("ordered"), ordered);
    // In a transaction only the commit may have a write concern.
    if let (None, Some(concern)) = (&session, database.write_concern()) {
        let concern =
            bson::serialize_to_raw_document_buf(concern).map_err(crate::error::from_bson)?;
        command.append(cstr!("writeConcern"), concern);
    }
    let action = database.run_raw_command(command);
    let answer = match session {
        None => action.await,
        Some(session) => action.session(session).await,
    };
    answer.map_err(error::from_driver)
}
