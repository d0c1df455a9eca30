//! The way of a command: arguments, permissions, session, execution, reply.

use std::sync::Arc;
use std::time::Duration;

use bson::raw::{CStr, cstr};
use bson::spec::BinarySubtype;
use bson::{Binary, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, rawdoc};
use odm_engine::{Database, Durability, Interrupt, Session, Transaction};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task;
use tokio::time::sleep;

use crate::arguments::Arguments;
use crate::command::{self, Access, Command, Run, commit_transaction, get_more, hello};
use crate::connection::ConnectionState;
use crate::error::{CommandError, Result, TRANSIENT_TRANSACTION_ERROR, code};
use crate::message::{MAX_MESSAGE_BYTES, Message, ReplyFormat};
use crate::namespace::Namespace;
use crate::request::{OperationNumber, ReadConcern, RequestOptions, WriteConcern};
use crate::server::ServerState;
use crate::session::SessionGuard;

/// The maximum length of a reply. The rest of the message has room for the header and the times.
const MAX_REPLY_DOCUMENT_BYTES: usize = MAX_MESSAGE_BYTES - (16 << 10);

/// An executed command.
pub(crate) struct Execution {
    pub(crate) reply: RawDocumentBuf,
    /// The permit of the operation, until the reply has its memory.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// A command that works on the engine, on a thread for blocking work.
pub(crate) struct Operation {
    pub(crate) server: Arc<ServerState>,
    pub(crate) options: RequestOptions,
    transaction: Option<Arc<Transaction>>,
}

/// A command that answers at once, on the thread of the connection.
pub(crate) struct InlineCall<'a> {
    pub(crate) server: &'a ServerState,
    pub(crate) connection: &'a mut ConnectionState,
    pub(crate) options: &'a RequestOptions,
}

/// Executes a command, and returns the reply: the result or the error.
pub(crate) async fn execute(
    message: Message,
    connection: &mut ConnectionState,
    server: &Arc<ServerState>,
    interrupt: Interrupt,
) -> Execution {
    let mut permit = None;
    let executed = execute_command(message, connection, server, interrupt, &mut permit).await;
    let mut reply = match executed {
        Ok(mut reply) => {
            reply.append(cstr!("ok"), 1.0);
            reply
        }
        Err(error) => error.to_reply(&server.namespaces),
    };
    let length = reply.as_bytes().len();
    if length > MAX_REPLY_DOCUMENT_BYTES {
        reply = reply_too_large(length).to_reply(&server.namespaces);
    }
    append_times(&mut reply, &server.database);
    Execution { reply, permit }
}

async fn execute_command(
    message: Message,
    connection: &mut ConnectionState,
    server: &Arc<ServerState>,
    interrupt: Interrupt,
    permit: &mut Option<OwnedSemaphorePermit>,
) -> Result<RawDocumentBuf> {
    let format = message.format;
    let mut arguments = Arguments::from_message(message)?;
    let command = command::find(arguments.command())?;
    arguments.set_command(command.name);
    if format == ReplyFormat::Query && !hello::is_hello(command) {
        let message = format!(
            "Unsupported OP_QUERY command: {}. The client driver may require an upgrade.",
            command.name
        );
        return Err(CommandError::new(
            code::UNSUPPORTED_OP_QUERY_COMMAND,
            message,
        ));
    }
    let options = RequestOptions::take(&mut arguments)?;
    if command.access != Access::Anyone && !connection.is_authenticated {
        let message = format!("command {} requires authentication", command.name);
        return Err(CommandError::new(code::UNAUTHORIZED, message));
    }
    if command.access == Access::Write {
        server.ensure_allows_writes(command.name)?;
    }
    let run = match command.run {
        Run::Inline(run) => {
            let call = InlineCall {
                server,
                connection,
                options: &options,
            };
            return run(call, arguments);
        }
        Run::GetMore => {
            return get_more::run(server, options, arguments, &interrupt, permit).await;
        }
        Run::Blocking(run) => run,
    };
    let max_time = options.max_time;
    let session = lock_session(command, &options, server).await?;
    let operation = BlockingOperation {
        server: Arc::clone(server),
        session,
        command,
        run,
        arguments,
        options,
    };
    run_blocking(server, &interrupt, max_time, permit, || operation.run()).await
}

/// Runs an operation on a thread for blocking work. After the time limit, the operation is interrupted.
///
/// The thread has the permit of the operation, and returns it to `permit` with the result. The thread of a dropped future runs on
/// until the operation notices its interrupt, and counts as an operation until then.
pub(crate) async fn run_blocking<T: Send + 'static>(
    server: &ServerState,
    interrupt: &Interrupt,
    max_time: Option<Duration>,
    permit: &mut Option<OwnedSemaphorePermit>,
    operation: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let operations = Arc::clone(&server.operations);
    let held = operations.acquire_owned().await.ok();
    let interrupts = interrupt.clone();
    let mut thread = task::spawn_blocking(move || (interrupts.run(operation), held));
    let mut has_expired = false;
    let joined = match max_time {
        None => thread.await,
        Some(max_time) => tokio::select! {
            biased;
            joined = &mut thread => joined,
            () = sleep(max_time) => {
                has_expired = true;
                interrupt.cancel();
                thread.await
            }
        },
    };
    let (result, held) = joined.map_err(|_| panicked())?;
    *permit = held;
    result.map_err(|error| match error.code() {
        code::INTERRUPTED if has_expired => {
            CommandError::new(code::MAX_TIME_EXPIRED, "operation exceeded time limit")
        }
        _ => error,
    })
}

fn panicked() -> CommandError {
    let message =
        "the command failed by a panic, which is a bug; the log of the server has details";
    CommandError::new(code::INTERNAL_ERROR, message)
}

fn reply_too_large(length: usize) -> CommandError {
    let message = format!(
        "the reply has {length} bytes (max {MAX_REPLY_DOCUMENT_BYTES}); a write may have changed documents: read the documents, and send smaller commands"
    );
    CommandError::new(code::BSON_OBJECT_TOO_LARGE, message)
}

/// Locks the session of a command with a number.
pub(crate) async fn lock_session(
    command: &Command,
    options: &RequestOptions,
    server: &ServerState,
) -> Result<Option<SessionGuard>> {
    let allowed = match options.number {
        OperationNumber::None => return Ok(None),
        OperationNumber::RetryableWrite(_) => command.is_retryable,
        OperationNumber::Transaction { .. } => command.in_transaction,
    };
    match (options.number, allowed) {
        (_, true) => {}
        (OperationNumber::Transaction { .. }, false) => {
            let message = format!(
                "Cannot run '{}' in a multi-document transaction.",
                command.name
            );
            let error = CommandError::new(code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message);
            return Err(error);
        }
        (_, false) => {
            let message = "txnNumber may only be provided for multi-document transactions and retryable write commands";
            return Err(CommandError::new(50768, message));
        }
    }
    match options.session {
        Some(id) => Ok(Some(server.sessions.lock(id).await)),
        None => Ok(None),
    }
}

/// A command with everything that it needs on a thread for blocking work.
struct BlockingOperation {
    server: Arc<ServerState>,
    session: Option<SessionGuard>,
    command: &'static Command,
    run: fn(&Operation, Arguments) -> Result<RawDocumentBuf>,
    arguments: Arguments,
    options: RequestOptions,
}

impl BlockingOperation {
    fn run(mut self) -> Result<RawDocumentBuf> {
        let is_snapshot = matches!(self.options.read_concern, ReadConcern::Snapshot(_));
        if is_snapshot && !self.command.reads_snapshots {
            let message = format!(
                "Command {} does not support the read concern `snapshot`",
                self.command.name
            );
            return Err(CommandError::new(code::INVALID_OPTIONS, message));
        }
        let Some(mut session) = self.session.take() else {
            return self.run_alone();
        };
        let server = Arc::clone(&self.server);
        match self.options.number {
            OperationNumber::None => self.run_alone(),
            OperationNumber::RetryableWrite(number) => {
                if let Some(reply) = session.begin_write(number)? {
                    return Ok(reply);
                }
                let reply = self.run_in(None)?;
                server.sessions.keep_reply(&mut session, &reply);
                Ok(reply)
            }
            OperationNumber::Transaction { number, .. } if self.command.ends_transaction => {
                let is_commit = self.command.name == commit_transaction::COMMAND.name;
                let concern = self.options.write_concern.clone();
                // Check the arguments before the transaction ends.
                let mut reply = self.run_in(None)?;
                server.cursors.close_in_transaction(session.id(), number);
                let ended = match is_commit {
                    true => session.commit(number),
                    false => session.abort(number),
                };
                ended.map_err(with_transaction_label)?;
                if is_commit {
                    sync_if_journaled(&server.database, &concern)?;
                }
                append_write_concern_error(&mut reply, &concern);
                Ok(reply)
            }
            OperationNumber::Transaction { number, begins } => {
                let transaction = match begins {
                    true => session.begin(number, &server.database),
                    false => session.transaction(number),
                };
                let transaction = transaction.map_err(with_transaction_label)?;
                let reply = self.run_in(Some(transaction));
                // As on MongoDB, every error of a transaction aborts the transaction.
                let has_failed = match &reply {
                    Ok(reply) => reply.get("writeErrors")?.is_some(),
                    Err(_) => true,
                };
                if has_failed {
                    session.abort_open();
                    server.cursors.close_in_transaction(session.id(), number);
                }
                reply.map_err(with_transaction_label)
            }
        }
    }

    /// Runs a command outside of a transaction.
    fn run_alone(self) -> Result<RawDocumentBuf> {
        let ReadConcern::Snapshot(time) = self.options.read_concern else {
            return self.run_in(None);
        };
        let server = Arc::clone(&self.server);
        let read = |state| self.run_in(Some(state));
        let (time, reply) = server.snapshots.read(time, &server.database, read)?;
        with_snapshot_time(&reply, time)
    }

    fn run_in(self, transaction: Option<Arc<Transaction>>) -> Result<RawDocumentBuf> {
        let is_write = self.command.access == Access::Write;
        let operation = Operation {
            server: self.server,
            options: self.options,
            transaction,
        };
        let mut reply = (self.run)(&operation, self.arguments)?;
        if is_write && !operation.is_in_transaction() {
            operation.acknowledge_write(&mut reply)?;
        }
        Ok(reply)
    }
}

/// Adds the time of the snapshot to the reply, or to its cursor.
fn with_snapshot_time(reply: &RawDocument, time: Timestamp) -> Result<RawDocumentBuf> {
    const NAME: &CStr = cstr!("atClusterTime");
    let mut output = RawDocumentBuf::new();
    let mut has_cursor = false;
    for element in reply {
        match element? {
            (name, RawBsonRef::Document(cursor)) if name.as_str() == "cursor" => {
                let mut cursor = cursor.to_owned();
                cursor.append(NAME, time);
                output.append(name, cursor);
                has_cursor = true;
            }
            (name, value) => output.append(name, value),
        }
    }
    if !has_cursor {
        output.append(NAME, time);
    }
    Ok(output)
}

/// Adds the label for errors after which the client runs the transaction again.
pub(crate) fn with_transaction_label(error: CommandError) -> CommandError {
    match error.code() {
        code::WRITE_CONFLICT | code::NO_SUCH_TRANSACTION => {
            error.with_label(TRANSIENT_TRANSACTION_ERROR)
        }
        _ => error,
    }
}

/// Makes a write durable if the client asks for it. Only a write of a relaxed database is not durable yet.
fn sync_if_journaled(database: &Database, concern: &WriteConcern) -> Result<()> {
    let is_journaled = *concern == WriteConcern::Available { journaled: true };
    if is_journaled && database.durability() == Durability::Relaxed {
        database.sync()?;
    }
    Ok(())
}

fn append_write_concern_error(reply: &mut RawDocumentBuf, concern: &WriteConcern) {
    if let WriteConcern::Unavailable(number, message) = concern {
        let error = rawdoc! {
            "code": *number,
            "codeName": &*code::name(*number),
            "errmsg": message.as_str(),
        };
        reply.append(cstr!("writeConcernError"), error);
    }
}

impl Operation {
    /// The state that the command works on: the database, or the transaction of the client.
    pub(crate) fn engine(&self) -> &Session {
        match &self.transaction {
            Some(transaction) => transaction,
            None => self.database(),
        }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.server.database
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Waits until a write is as durable as the client asks for, and adds an error if the server cannot do that.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn acknowledge_write(&self, reply: &mut RawDocumentBuf) -> Result<()> {
        let concern = &self.options.write_concern;
        sync_if_journaled(self.database(), concern)?;
        append_write_concern_error(reply, concern);
        Ok(())
    }

    /// The number of the transaction, if the command is in a transaction.
    pub(crate) fn transaction_number(&self) -> Option<i64> {
        match self.options.number {
            OperationNumber::Transaction { number, .. } => Some(number),
            OperationNumber::None | OperationNumber::RetryableWrite(_) => None,
        }
    }

    /// Returns the namespace of a collection of the database of the command.
    pub(crate) fn namespace(&self, collection: &str) -> Namespace {
        Namespace {
            database: self.options.database.clone(),
            collection: collection.to_owned(),
        }
    }

    /// Returns the name of a collection in the file.
    ///
    /// # Errors
    /// An invalid name.
    pub(crate) fn engine_name(&self, collection: &str) -> Result<String> {
        let database = &self.options.database;
        self.server.namespaces.engine_name(database, collection)
    }

    /// Returns the name of a collection in the file, for a write.
    ///
    /// # Errors
    /// An invalid name, or a name that is reserved.
    pub(crate) fn engine_name_to_write(&self, collection: &str) -> Result<String> {
        if collection.starts_with("system.") {
            let message = format!("cannot write to '{}'", self.namespace(collection));
            return Err(CommandError::new(code::INVALID_NAMESPACE, message));
        }
        self.engine_name(collection)
    }

    /// Returns the collections of a database of clients: their names for clients, each with the name in the file. The checks of
    /// [`engine_name`](Operation::engine_name) may refuse the name of a collection that an application has created.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(crate) fn collections(&self, database: &str) -> Result<Vec<(String, String)>> {
        let names = self.database().list_collections()?.into_iter();
        let namespaces = names.map(|name| (self.server.namespaces.namespace_of(&name), name));
        let mut collections: Vec<_> = namespaces
            .filter(|(namespace, _)| namespace.database == database)
            .map(|(namespace, name)| (namespace.collection, name))
            .collect();
        collections.sort_unstable();
        Ok(collections)
    }
}

/// Adds the times of a member of a replica set.
fn append_times(reply: &mut RawDocumentBuf, database: &Database) {
    let time = database.cluster_time();
    // An empty signature: the server ignores the times of clients.
    let hash = Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![0; 20],
    };
    let signature = rawdoc! { "hash": hash, "keyId": 0_i64 };
    let cluster_time = rawdoc! { "clusterTime": time, "signature": signature };
    reply.append(cstr!("$clusterTime"), cluster_time);
    reply.append(cstr!("operationTime"), time);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::time::timeout;

    use super::*;
    use crate::server::Server;

    #[tokio::test]
    async fn an_operation_without_a_caller_keeps_its_permit() {
        let server = Server::builder(Database::memory()).into_state().unwrap();
        let available = server.operations.available_permits();
        let (interrupt, mut permit) = (Interrupt::new(), None);
        let (end, ended) = mpsc::channel();
        let operation = move || Ok(ended.recv().unwrap_or(0));
        let running = run_blocking(&server, &interrupt, None, &mut permit, operation);
        let dropped = timeout(Duration::from_millis(10), running).await;
        assert!(dropped.is_err());
        assert_eq!(server.operations.available_permits(), available - 1);
        end.send(7).unwrap();
        while server.operations.available_permits() < available {
            sleep(Duration::from_millis(1)).await;
        }
        // A caller has the permit until the reply has its memory.
        let operation = || Ok(7);
        let result = run_blocking(&server, &interrupt, None, &mut permit, operation).await;
        assert_eq!(result.unwrap(), 7);
        assert_eq!(server.operations.available_permits(), available - 1);
        drop(permit);
        assert_eq!(server.operations.available_permits(), available);
    }
}
