//! `{ aggregate: "c", pipeline: [ … ], cursor: {} }`: a pipeline, also on a change stream.

use bson::{RawBson, RawBsonRef, RawDocumentBuf};
use odm_engine::Aggregate;

use super::find::take_batch_size;
use super::{Command, coll_stats, explain, list_local_sessions};
use crate::arguments::Arguments;
use crate::change_stream::{self, ChangeCursor, Watched};
use crate::cursor::{CursorSource, OpenCursor};
use crate::dispatch::Operation;
use crate::documents::{self, NO_COLLECTION};
use crate::error::{CommandError, Result, code};
use crate::pipeline;
use crate::request::ReadConcern;

pub(super) const COMMAND: Command = Command::read("aggregate", run)
    .in_transaction()
    .with_snapshots();

/// A parsed `aggregate`.
pub(super) struct AggregateCommand {
    /// `None` for a pipeline on a database.
    pub(super) collection: Option<String>,
    pub(super) aggregate: Aggregate,
    batch_documents: Option<usize>,
    explains: bool,
}

fn run(operation: &Operation, arguments: Arguments) -> Result<RawDocumentBuf> {
    let command = AggregateCommand::parse(arguments)?;
    if command.explains {
        return explain::explain_aggregate(operation, command, explain::Verbosity::QueryPlanner);
    }
    let collection = command.collection.as_deref();
    let namespace = operation.namespace(collection.unwrap_or(NO_COLLECTION));
    let is_write = command.aggregate.is_write();
    if is_write {
        ensure_may_write(operation)?;
    }
    let source = open_source(operation, &command)?;
    let cursor = OpenCursor::new(namespace, source)
        .in_session(operation.options.session, operation.transaction_number());
    // The first batch of a change stream is empty: the events come later.
    let cursors = &operation.server.cursors;
    let mut reply = cursors.first_reply(cursor, command.batch_documents, false)?;
    if is_write {
        operation.acknowledge_write(&mut reply)?;
    }
    Ok(reply)
}

/// Checks that the server and the arguments of every command allow `$out` and `$merge`.
fn ensure_may_write(operation: &Operation) -> Result<()> {
    match operation.options.read_concern {
        ReadConcern::Current | ReadConcern::Weak(_) => {}
        ReadConcern::Linearizable => {
            let message = "$out and $merge cannot be used with a 'linearizable' read concern level";
            return Err(CommandError::new(code::INVALID_OPTIONS, message));
        }
        ReadConcern::Snapshot(_) => {
            let message = "$out and $merge with the read concern `snapshot` are not supported";
            return Err(CommandError::not_supported(message));
        }
    }
    operation
        .server
        .ensure_allows_writes("aggregate with $out or $merge")
}

fn open_source(operation: &Operation, command: &AggregateCommand) -> Result<CursorSource> {
    let stages = &command.aggregate.pipeline;
    if let Some((options, stages)) = change_stream::split_pipeline(stages)? {
        return open_changes(operation, command, &options, stages);
    }
    let mut aggregate = Aggregate {
        pipeline: pipeline::localize(operation, stages)?,
        ..command.aggregate.clone()
    };
    let Some(collection) = &command.collection else {
        aggregate.pipeline = pipeline_on_database(operation, &aggregate.pipeline)?;
        let found = operation.engine().aggregate(NO_COLLECTION, &aggregate)?;
        return Ok(CursorSource::Query(found));
    };
    let name = operation.engine_name(collection)?;
    if let Some(first) = aggregate.pipeline.first()
        && first.get(list_local_sessions::NAME)?.is_some()
    {
        let message = "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection";
        return Err(CommandError::new(code::INVALID_NAMESPACE, message));
    }
    if let Some((first, rest)) = aggregate.pipeline.split_first()
        && let Some(options) = first.get("$collStats")?
    {
        let statistics = coll_stats::stage(operation, collection, options)?;
        aggregate.pipeline = documents::pipeline_on([statistics], rest);
        let found = operation.engine().aggregate(NO_COLLECTION, &aggregate)?;
        return Ok(CursorSource::Query(found));
    }
    let found = operation.engine().aggregate(&name, &aggregate)?;
    Ok(CursorSource::Query(found))
}

/// Returns a pipeline on a database as a pipeline on no collection.
fn pipeline_on_database(
    operation: &Operation,
    stages: &[RawDocumentBuf],
) -> Result<Vec<RawDocumentBuf>> {
    if let Some((first, rest)) = stages.split_first() {
        if let Some(operand) = first.get("$documents")? {
            let mut pipeline = vec![documents::documents_stage(RawBson::from(operand))];
            pipeline.extend_from_slice(rest);
            return Ok(pipeline);
        }
        if let Some(options) = first.get(list_local_sessions::NAME)? {
            let sessions = list_local_sessions::stage(operation, options)?;
            return Ok(documents::pipeline_on(sessions, rest));
        }
    }
    let message = "{aggregate: 1} is not valid for this pipeline; the first stage is $documents, $listLocalSessions or $changeStream";
    Err(CommandError::new(code::INVALID_NAMESPACE, message))
}

fn open_changes(
    operation: &Operation,
    command: &AggregateCommand,
    options: &bson::RawDocument,
    stages: &[RawDocumentBuf],
) -> Result<CursorSource> {
    let level = match operation.options.read_concern {
        ReadConcern::Current => None,
        ReadConcern::Weak(level) => Some(level),
        ReadConcern::Linearizable => Some("linearizable"),
        ReadConcern::Snapshot(_) => Some("snapshot"),
    };
    if let Some(level) = level {
        let message = format!("a $changeStream has the read concern `majority`, not `{level}`");
        return Err(CommandError::new(code::INVALID_OPTIONS, message));
    }
    if operation.is_in_transaction() {
        let message = "$changeStream cannot be used in a multi-document transaction";
        return Err(CommandError::new(
            code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            message,
        ));
    }
    let database = operation.database();
    if !operation.server.allows_writes && database.change_log().is_none() {
        let message = "the change log of the file is off, and the server is read-only: a change stream has nothing to read";
        return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
    }
    let watched = match &command.collection {
        Some(collection) => Watched::Collection(operation.engine_name(collection)?),
        None => Watched::Database(operation.options.database.clone()),
    };
    let namespaces = &operation.server.namespaces;
    let changes = ChangeCursor::open(database, namespaces, watched, options, stages)?;
    Ok(CursorSource::Changes(Box::new(changes)))
}

impl AggregateCommand {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Wrong types; arguments that are not supported.
    pub(super) fn parse(mut arguments: Arguments) -> Result<AggregateCommand> {
        let collection = match arguments.value("aggregate") {
            Some(RawBson::String(name)) => Some(name),
            Some(other) => match crate::arguments::to_number(other.as_raw_bson_ref()) {
                Some(1.0) => None,
                _ => {
                    let message = "Invalid command format: the 'aggregate' field must specify a collection name or 1";
                    return Err(CommandError::new(code::FAILED_TO_PARSE, message));
                }
            },
            None => return Err(arguments.missing("aggregate")),
        };
        // A stage that needs too much memory fails, and collections have no validators.
        arguments.accept(&[
            "allowDiskUse",
            "bypassDocumentValidation",
            "needsMerge",
            "fromMongos",
        ]);
        let explains = arguments.flag("explain")?;
        let pipeline = match arguments.value("pipeline") {
            Some(RawBson::Array(stages)) => to_stages(&stages)?,
            Some(_) | None => {
                let message = "'pipeline' option must be specified as an array";
                return Err(CommandError::new(code::TYPE_MISMATCH, message));
            }
        };
        let batch_documents = match arguments.document("cursor")? {
            Some(cursor) => {
                let mut cursor = Arguments::nested("cursor", &cursor)?;
                let size = take_batch_size(&mut cursor)?;
                cursor.finish()?;
                size
            }
            None if explains => None,
            None => {
                let message = "The 'cursor' option is required, except for aggregate with the explain argument";
                return Err(CommandError::new(code::FAILED_TO_PARSE, message));
            }
        };
        let command = AggregateCommand {
            collection,
            aggregate: Aggregate {
                pipeline,
                variables: arguments.document("let")?.unwrap_or_default(),
                hint: arguments.hint()?,
                collation: arguments.collation()?,
            },
            batch_documents,
            explains,
        };
        arguments.finish()?;
        Ok(command)
    }
}

/// Reads the stages of a pipeline.
pub(super) fn to_stages(stages: &bson::RawArray) -> Result<Vec<RawDocumentBuf>> {
    let stages = stages.into_iter().map(|stage| match stage? {
        RawBsonRef::Document(stage) => Ok(stage.to_owned()),
        _ => Err(CommandError::new(
            code::TYPE_MISMATCH,
            "Each element of the 'pipeline' array must be an object",
        )),
    });
    stages.collect()
}
