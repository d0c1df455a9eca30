//! `{ find: "c", filter: { … } }`: a query.

use bson::RawDocumentBuf;
use odm_engine::Find;

use super::Command;
use crate::arguments::Arguments;
use crate::cursor::{CursorSource, OpenCursor};
use crate::dispatch::Operation;
use crate::error::{CommandError, Result, code};

pub(super) const COMMAND: Command = Command::read("find", run).in_transaction().with_snapshots();

/// A parsed `find`.
pub(super) struct FindCommand {
    pub(super) collection: String,
    pub(super) find: Find,
    batch_documents: Option<usize>,
    is_single_batch: bool,
    has_session_timeout: bool,
}

fn run(operation: &Operation, arguments: Arguments) -> Result<RawDocumentBuf> {
    let command = FindCommand::parse(arguments)?;
    let name = operation.engine_name(&command.collection)?;
    let found = operation.engine().find(&name, &command.find)?;
    let namespace = operation.namespace(&command.collection);
    let cursor = OpenCursor::new(namespace, CursorSource::Query(found))
        .with_limit(command.find.limit)
        .in_session(operation.options.session, operation.transaction_number())
        .with_session_timeout(command.has_session_timeout);
    let cursors = &operation.server.cursors;
    cursors.first_reply(cursor, command.batch_documents, command.is_single_batch)
}

impl FindCommand {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Wrong types; arguments that are not supported.
    pub(super) fn parse(mut arguments: Arguments) -> Result<FindCommand> {
        let collection = arguments.collection("find")?;
        if arguments.flag("tailable")? {
            let message =
                "error processing query: tailable cursor requested on non capped collection";
            return Err(CommandError::bad_value(message));
        }
        for name in ["returnKey", "showRecordId", "awaitData"] {
            if arguments.flag(name)? {
                return Err(arguments.unsupported(name));
            }
        }
        for name in ["min", "max"] {
            if let Some(bound) = arguments.document(name)?
                && !bound.is_empty()
            {
                return Err(arguments.unsupported(name));
            }
        }
        // The server has no shards, and a stage that needs too much memory fails.
        arguments.accept(&["allowPartialResults", "oplogReplay", "allowDiskUse"]);
        let limit = take_limit(&mut arguments)?;
        let command = FindCommand {
            find: Find {
                filter: arguments.document("filter")?.unwrap_or_default(),
                projection: not_empty(arguments.document("projection")?),
                sort: not_empty(arguments.document("sort")?),
                skip: arguments.unsigned("skip")?.unwrap_or(0),
                limit,
                variables: arguments.document("let")?.unwrap_or_default(),
                hint: arguments.hint()?,
                collation: arguments.collation()?,
            },
            batch_documents: take_batch_size(&mut arguments)?,
            is_single_batch: arguments.flag("singleBatch")?,
            has_session_timeout: arguments.flag("noCursorTimeout")?,
            collection,
        };
        arguments.finish()?;
        Ok(command)
    }
}

/// Takes `limit`. Zero is no limit.
fn take_limit(arguments: &mut Arguments) -> Result<Option<u64>> {
    Ok(arguments.unsigned("limit")?.filter(|limit| *limit > 0))
}

/// Takes `batchSize`.
pub(super) fn take_batch_size(arguments: &mut Arguments) -> Result<Option<usize>> {
    let size = arguments.unsigned("batchSize")?;
    size.map(|size| {
        usize::try_from(size)
            .map_err(|_| CommandError::new(code::BAD_VALUE, "`batchSize` is too large"))
    })
    .transpose()
}

/// Returns a document unless it is empty: an empty sort or projection is none.
pub(super) fn not_empty(document: Option<RawDocumentBuf>) -> Option<RawDocumentBuf> {
    document.filter(|document| !document.is_empty())
}
