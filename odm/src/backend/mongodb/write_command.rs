//! Commands that write, whose answers have everything, but which the driver does not try again.

use ::mongodb::{Database, bson::Document};
use bson::{
    RawArrayBuf, RawDocumentBuf,
    raw::{CStr, cstr},
};

use super::{Session, error};
use crate::Result;

/// The largest document that MongoDB stores. A command is no larger either: it is one document where the driver does not
/// split it, and may be hardly larger.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The most documents that MongoDB inserts, changes or deletes by one command.
pub(super) const MAX_STATEMENTS: usize = 100_000;

/// What each document costs in an array, with its position as the name.
pub(super) const ELEMENT_BYTES: usize = 8;

/// Sends a command: its name, and the name of the array of what it is to do.
pub(super) async fn send<'d>(
    database: &Database,
    (name, array): (&CStr, &CStr),
    collection: &str,
    statements: impl IntoIterator<Item = &'d RawDocumentBuf>,
    ordered: bool,
    session: Session<'_>,
) -> Result<Document> {
    let mut all = RawArrayBuf::new();
    for statement in statements {
        all.push(statement.as_ref());
    }
    let mut command = RawDocumentBuf::new();
    command.append(name, collection);
    command.append(array, all);
    command.append(cstr!("ordered"), ordered);
    // In a transaction the commit has the write concern.
    if let (None, Some(concern)) = (&session, database.write_concern()) {
        let concern = bson::serialize_to_raw_document_buf(concern).map_err(crate::error::encode)?;
        command.append(cstr!("writeConcern"), concern);
    }
    let action = database.run_raw_command(command);
    let answer = match session {
        None => action.await,
        Some(session) => action.session(session).await,
    };
    answer.map_err(error::from_driver)
}
